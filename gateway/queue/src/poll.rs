//! How long a waiting client may rest before it asks again.
