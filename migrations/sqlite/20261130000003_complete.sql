-- Numbered units, order limits, extension, events and leases.

-- `version`: events told of the product so far. A product is stopped when its books differ.
ALTER TABLE products ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE products ADD COLUMN stopped_at INTEGER;
ALTER TABLE products ADD COLUMN stopped_why TEXT;

-- `version`: events told of the reservation so far. `bucket`: where its units come from; here there is one of each
-- product. `units`: the labels of numbered units as a JSON array, kept when the hold is over.
ALTER TABLE reservations ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE reservations ADD COLUMN bucket INTEGER NOT NULL DEFAULT 0;
ALTER TABLE reservations ADD COLUMN extended INTEGER NOT NULL DEFAULT 0 CHECK (extended IN (0, 1));
ALTER TABLE reservations ADD COLUMN units TEXT;

-- Stock of kind `units`, one row for each. `stock` counts them as it counts the others.
CREATE TABLE units (
    product_id     TEXT    NOT NULL REFERENCES products (id),
    number         INTEGER NOT NULL,
    label          TEXT    NOT NULL,
    state          TEXT    NOT NULL DEFAULT 'free' CHECK (state IN ('free', 'held', 'sold')),
    reservation_id TEXT    REFERENCES reservations (id),
    PRIMARY KEY (product_id, number),
    UNIQUE (product_id, label),
    CHECK ((state = 'free') = (reservation_id IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX units_free ON units (product_id, number) WHERE state = 'free';
CREATE INDEX units_of ON units (reservation_id) WHERE reservation_id IS NOT NULL;

-- `provider_ref`: the payment service's own name of the payment. `redirect_url`: where the shopper has to confirm it.
ALTER TABLE purchases ADD COLUMN provider_ref TEXT;
ALTER TABLE purchases ADD COLUMN redirect_url TEXT;
ALTER TABLE purchases ADD COLUMN email TEXT;

-- While a purchase is under way: which node drives it, and until when no other may.
ALTER TABLE idempotency_keys ADD COLUMN lease_owner TEXT;
ALTER TABLE idempotency_keys ADD COLUMN lease_until INTEGER;

-- What is to be told to whom. `seq` is dense for each aggregate: told in its order, each at least once.
CREATE TABLE outbox (
    sink         TEXT    NOT NULL,
    aggregate    TEXT    NOT NULL,
    seq          INTEGER NOT NULL CHECK (seq > 0),
    id           TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    payload      TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    tries        INTEGER NOT NULL DEFAULT 0,
    next_try     INTEGER NOT NULL,
    leased_until INTEGER,
    dead         INTEGER NOT NULL DEFAULT 0 CHECK (dead IN (0, 1)),
    PRIMARY KEY (sink, aggregate, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX outbox_due ON outbox (sink, next_try) WHERE dead = 0;
