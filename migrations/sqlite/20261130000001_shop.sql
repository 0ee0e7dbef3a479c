-- Times are Unix milliseconds of this database's clock.

CREATE TABLE products (
    id           TEXT    NOT NULL PRIMARY KEY,
    name         TEXT    NOT NULL,
    description  TEXT    NOT NULL,
    price_minor  INTEGER NOT NULL CHECK (price_minor >= 0),
    currency     TEXT    NOT NULL CHECK (length(currency) = 3),
    max_quantity INTEGER NOT NULL CHECK (max_quantity > 0),
    kind         TEXT    NOT NULL CHECK (kind IN ('count', 'units'))
) STRICT;

-- Stock of kind `count`. The last check makes every statement that moves a unit move it somewhere.
CREATE TABLE stock (
    product_id TEXT    NOT NULL PRIMARY KEY REFERENCES products (id),
    total      INTEGER NOT NULL,
    available  INTEGER NOT NULL CHECK (available BETWEEN 0 AND total),
    held       INTEGER NOT NULL CHECK (held >= 0),
    sold       INTEGER NOT NULL CHECK (sold >= 0),
    CHECK (total = available + held + sold)
) STRICT;

CREATE TABLE reservations (
    id           TEXT    NOT NULL PRIMARY KEY,
    product_id   TEXT    NOT NULL REFERENCES products (id),
    visitor      TEXT    NOT NULL,
    quantity     INTEGER NOT NULL CHECK (quantity > 0),
    amount_minor INTEGER NOT NULL CHECK (amount_minor >= 0),
    currency     TEXT    NOT NULL,
    state        TEXT    NOT NULL CHECK (state IN ('held', 'paying', 'capturing', 'sold', 'cancelled', 'expired')),
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    changed_at   INTEGER NOT NULL
) STRICT;

-- One visitor holds or owns once, however many tabs, tokens or keys ask.
CREATE UNIQUE INDEX reservations_once ON reservations (product_id, visitor)
    WHERE state IN ('held', 'paying', 'capturing', 'sold');
CREATE INDEX reservations_due ON reservations (expires_at) WHERE state IN ('held', 'paying');

CREATE TABLE purchases (
    id             TEXT    NOT NULL PRIMARY KEY,
    reservation_id TEXT    NOT NULL REFERENCES reservations (id),
    state          TEXT    NOT NULL CHECK (state IN ('authorising', 'capturing', 'sold', 'declined', 'voiding',
                                                     'voided', 'refunding', 'refunded')),
    method         TEXT    NOT NULL,
    reason         TEXT,
    created_at     INTEGER NOT NULL,
    changed_at     INTEGER NOT NULL
) STRICT;

CREATE INDEX purchases_of ON purchases (reservation_id, created_at);
-- Two payments for one hold can never run side by side.
CREATE UNIQUE INDEX purchases_open ON purchases (reservation_id) WHERE state IN ('authorising', 'capturing', 'sold');
CREATE INDEX purchases_unsettled ON purchases (changed_at)
    WHERE state IN ('authorising', 'capturing', 'voiding', 'refunding');

CREATE TABLE payment_events (
    id          TEXT    NOT NULL PRIMARY KEY,
    kind        TEXT    NOT NULL,
    purchase_id TEXT    NOT NULL,
    received_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- `answer` is null while a purchase is under way; `purchase_id` lets a retry take it over after a crash.
CREATE TABLE idempotency_keys (
    visitor     TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    purchase_id TEXT    REFERENCES purchases (id),
    answer      TEXT,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (visitor, key),
    CHECK (answer IS NOT NULL OR purchase_id IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);
