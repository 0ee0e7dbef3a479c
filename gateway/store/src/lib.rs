//! Where the queue's state lives: the QueueStore trait and the embedded store.
