-- Old events are forgotten by it.
CREATE INDEX payment_events_age ON payment_events (received_at);
