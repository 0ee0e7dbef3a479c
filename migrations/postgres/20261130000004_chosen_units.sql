-- `chosen`: whether the shopper chose these very units, which then cannot be replaced by others. Of reservations that were
-- made before it is not known, and taken to be so. `first_units`: what they were, where others have replaced them.
ALTER TABLE reservations ADD COLUMN chosen BOOLEAN NOT NULL DEFAULT TRUE;
ALTER TABLE reservations ADD COLUMN first_units TEXT;
