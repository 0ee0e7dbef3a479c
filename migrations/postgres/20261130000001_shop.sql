-- Times are Unix milliseconds of this database's clock.
--
-- What is written for every claim refers to nothing: a foreign key costs a look-up for each row, and a lock on the
-- product's row that every transaction of the sale would share.

-- `version`: events told of the product so far. A product is stopped when its books differ.
CREATE TABLE products (
    id           TEXT COLLATE "C" PRIMARY KEY,
    name         TEXT   NOT NULL,
    description  TEXT   NOT NULL,
    price_minor  BIGINT NOT NULL CHECK (price_minor >= 0),
    currency     TEXT   NOT NULL CHECK (length(currency) = 3),
    max_quantity BIGINT NOT NULL CHECK (max_quantity > 0),
    kind         TEXT   NOT NULL CHECK (kind IN ('count', 'units')),
    version      BIGINT NOT NULL DEFAULT 0,
    stopped_at   BIGINT,
    stopped_why  TEXT
);

-- Stock of kind `count`, in several rows so that nodes need not wait for each other. What is not available is held or
-- sold by the reservations that name this bucket.
--
-- Each change counts `generation` up, so that the latest version of a bucket is always the first that the index gives,
-- read backwards: however many versions a long transaction elsewhere keeps alive, nobody steps over them.
CREATE TABLE buckets (
    product_id TEXT COLLATE "C" NOT NULL REFERENCES products (id),
    slot       BIGINT NOT NULL,
    generation BIGINT NOT NULL DEFAULT 0,
    total      BIGINT NOT NULL,
    available  BIGINT NOT NULL CHECK (available BETWEEN 0 AND total),
    PRIMARY KEY (product_id, slot, generation)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Stock of kind `units`, one row for each. `place` is the place among the free ones, and nothing for the others. One that
-- comes back goes to the end, so a place that has been passed is never free again.
CREATE TABLE units (
    product_id     TEXT COLLATE "C" NOT NULL REFERENCES products (id),
    number         BIGINT NOT NULL,
    label          TEXT COLLATE "C" NOT NULL,
    state          TEXT   NOT NULL DEFAULT 'free' CHECK (state IN ('free', 'held', 'sold')),
    reservation_id TEXT COLLATE "C",
    place          BIGINT,
    PRIMARY KEY (product_id, label),
    CHECK ((state = 'free') = (reservation_id IS NULL)),
    CHECK ((state = 'free') = (place IS NOT NULL))
);

CREATE INDEX units_free ON units (product_id, place) WHERE place IS NOT NULL;
CREATE SEQUENCE unit_places CACHE 1;

-- `bucket`: where its units come from. `units`: the labels of numbered units as a JSON array, kept when the hold is over.
-- `first_expires_at`: when it was to end before it was extended. `over` is empty as long as the visitor holds or owns the
-- units. `due_at` is when a hold ends by itself; never, while its money is being captured.
CREATE TABLE reservations (
    id               TEXT COLLATE "C" PRIMARY KEY,
    product_id       TEXT COLLATE "C" NOT NULL,
    visitor          TEXT COLLATE "C" NOT NULL,
    quantity         BIGINT  NOT NULL CHECK (quantity > 0),
    amount_minor     BIGINT  NOT NULL CHECK (amount_minor >= 0),
    currency         TEXT    NOT NULL,
    state            TEXT    NOT NULL CHECK (state IN ('held', 'paying', 'capturing', 'sold', 'cancelled', 'expired')),
    created_at       BIGINT  NOT NULL,
    expires_at       BIGINT  NOT NULL,
    first_expires_at BIGINT,
    changed_at       BIGINT  NOT NULL,
    extended         BOOLEAN NOT NULL DEFAULT FALSE,
    bucket           BIGINT  NOT NULL,
    version          BIGINT  NOT NULL DEFAULT 0,
    units            TEXT,
    over TEXT COLLATE "C" NOT NULL
        GENERATED ALWAYS AS (CASE WHEN state IN ('cancelled', 'expired') THEN id ELSE '' END) STORED,
    due_at BIGINT
        GENERATED ALWAYS AS (CASE WHEN state IN ('held', 'paying') THEN expires_at
                                  WHEN state = 'capturing' THEN 9223372036854775807 END) STORED
) WITH (fillfactor = 85);

-- One visitor holds or owns once, however many tabs, tokens or keys ask; and how a visitor stands is looked up for every
-- answer. Steps of a payment change no indexed column, so they write no index.
CREATE UNIQUE INDEX reservations_of ON reservations (visitor, product_id, over);
CREATE INDEX reservations_open ON reservations (product_id, due_at) WHERE due_at IS NOT NULL;

CREATE TABLE purchases (
    id             TEXT COLLATE "C" PRIMARY KEY,
    reservation_id TEXT COLLATE "C" NOT NULL REFERENCES reservations (id),
    state          TEXT   NOT NULL CHECK (state IN ('authorising', 'capturing', 'sold', 'declined', 'voiding',
                                                    'voided', 'refunding', 'refunded')),
    method         TEXT   NOT NULL,
    reason         TEXT,
    provider_ref   TEXT,
    redirect_url   TEXT,
    email          TEXT,
    created_at     BIGINT NOT NULL,
    changed_at     BIGINT NOT NULL
) WITH (fillfactor = 85);

-- Names are in the order of their making, which breaks a tie of times.
CREATE INDEX purchases_of ON purchases (reservation_id, created_at, id);
-- Two payments for one hold can never run side by side.
CREATE UNIQUE INDEX purchases_open ON purchases (reservation_id) WHERE state IN ('authorising', 'capturing', 'sold');
CREATE INDEX purchases_unsettled ON purchases (changed_at)
    WHERE state IN ('authorising', 'capturing', 'voiding', 'refunding');

CREATE TABLE payment_events (
    id          TEXT COLLATE "C" PRIMARY KEY,
    kind        TEXT   NOT NULL,
    purchase_id TEXT   NOT NULL,
    received_at BIGINT NOT NULL
);

-- `id`: the first half of SHA-256 over visitor and key. A key that made a reservation names it, and the answer is told
-- from its row; other answers are kept as they were. While a purchase is under way there is none, but which node drives
-- it, and until when no other may.
CREATE TABLE idempotency_keys (
    id             BYTEA  PRIMARY KEY CHECK (length(id) = 16),
    fingerprint    BYTEA  NOT NULL,
    reservation_id TEXT COLLATE "C",
    purchase_id    TEXT COLLATE "C",
    answer         TEXT,
    lease_owner    TEXT,
    lease_until    BIGINT,
    created_at     BIGINT NOT NULL,
    CHECK (answer IS NOT NULL OR purchase_id IS NOT NULL OR reservation_id IS NOT NULL)
) WITH (fillfactor = 90);

CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);

-- What is to be told to whom. `seq` is dense for each aggregate: told in its order, each at least once.
CREATE TABLE outbox (
    sink         TEXT COLLATE "C" NOT NULL,
    aggregate    TEXT COLLATE "C" NOT NULL,
    seq          BIGINT  NOT NULL CHECK (seq > 0),
    id           TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    payload      TEXT    NOT NULL,
    created_at   BIGINT  NOT NULL,
    tries        BIGINT  NOT NULL DEFAULT 0,
    next_try     BIGINT  NOT NULL,
    leased_until BIGINT,
    dead         BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (sink, aggregate, seq)
);

CREATE INDEX outbox_due ON outbox (sink, next_try) WHERE NOT dead;
