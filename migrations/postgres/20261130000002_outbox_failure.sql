-- Why the last try came to nothing, for the operator; nothing of a shopper.
ALTER TABLE outbox ADD COLUMN failure TEXT;
