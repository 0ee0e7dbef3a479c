-- How a visitor stands is looked up for every answer.
CREATE INDEX reservations_of ON reservations (visitor, state, expires_at);
