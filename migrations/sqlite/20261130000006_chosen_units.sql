-- Whether the shopper chose these very units, which then cannot be replaced by others. Of reservations that were made
-- before it is not known, and taken to be so.
ALTER TABLE reservations ADD COLUMN chosen INTEGER NOT NULL DEFAULT 1 CHECK (chosen IN (0, 1));
