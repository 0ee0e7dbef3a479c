-- The built-in test provider's own books. Times are Unix milliseconds of this database's clock.

CREATE TABLE payments (
    purchase     TEXT    NOT NULL PRIMARY KEY,
    amount_minor INTEGER NOT NULL CHECK (amount_minor >= 0),
    currency     TEXT    NOT NULL,
    method       TEXT    NOT NULL,
    status       TEXT    NOT NULL CHECK (status IN ('pending', 'authorised', 'declined', 'captured', 'voided', 'refunded')),
    reason       TEXT,
    due_at       INTEGER,
    created_at   INTEGER NOT NULL,
    CHECK ((status = 'pending') = (due_at IS NOT NULL))
) STRICT;

CREATE INDEX payments_due ON payments (due_at) WHERE due_at IS NOT NULL;

-- Webhooks still to be delivered; a row goes when it was taken, or after three days of trying.
CREATE TABLE events (
    id         TEXT    NOT NULL PRIMARY KEY,
    purchase   TEXT    NOT NULL REFERENCES payments (purchase),
    body       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    next_try   INTEGER NOT NULL,
    tries      INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX events_due ON events (next_try);
