//! Stopping a product's sale, and taking it up again.

use super::{Operation, events};
use crate::store::tx::{Halt, Tx, WriteError};

/// Stops the sale of a product. `false`: there is none of that name, or it was stopped before.
#[derive(Clone, Debug)]
pub(in crate::store) struct Stop {
    pub(in crate::store) product: String,
    pub(in crate::store) why: String,
}

/// Takes the sale of a product up again. `false`: there is none of that name, or it was not stopped.
#[derive(Clone, Debug)]
pub(in crate::store) struct Resume {
    pub(in crate::store) product: String,
}

impl Operation for Stop {
    type Output = bool;

    async fn run<T: Tx>(&self, tx: &mut T) -> Result<bool, WriteError> {
        let Self { product, why } = self;
        let Some(Halt { stopped: None, mut version }) = tx.halt(product).await? else { return Ok(false) };
        let now = tx.now().await?;
        let event = events::of_stop(tx.settings(), product, why, &mut version, now)?;
        tx.put_halt(product, &Halt { stopped: Some((now, why.clone())), version }).await?;
        if let Some(event) = event {
            tx.emit(&[event]).await?;
        }
        Ok(true)
    }
}

impl Operation for Resume {
    type Output = bool;

    async fn run<T: Tx>(&self, tx: &mut T) -> Result<bool, WriteError> {
        let Some(halt) = tx.halt(&self.product).await? else { return Ok(false) };
        if halt.stopped.is_none() {
            return Ok(false);
        }
        tx.put_halt(&self.product, &Halt { stopped: None, ..halt }).await?;
        Ok(true)
    }
}
