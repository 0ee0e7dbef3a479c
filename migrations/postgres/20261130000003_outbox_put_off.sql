-- When `next_try` was decided. What was put off at a time that is still to come was so before the clock was set back.
ALTER TABLE outbox ADD COLUMN put_off_at BIGINT NOT NULL DEFAULT 0;
