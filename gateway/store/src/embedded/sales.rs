//! The sales in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use ropeline_queue::{Queue, SaleDefinition, SaleId, UnixMillis};

use super::Views;
use crate::StoreError;

/// Every sale of the store, and which of them the present batch has touched.
#[derive(Default)]
pub(super) struct Sales {
    queues: BTreeMap<SaleId, Slot>,
}

struct Slot {
    queue: Queue,
    touched: bool,
}

// === impl Sales ===

impl Sales {
    pub(super) fn create(
        &mut self,
        definition: SaleDefinition,
        draw_secret: [u8; 32],
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let sale = definition.id.clone();
        if self.queues.contains_key(&sale) {
            return Err(StoreError::SaleExists(sale));
        }
        let slot = Slot { queue: Queue::create(definition, draw_secret, now), touched: true };
        self.queues.insert(sale, slot);
        Ok(())
    }

    /// Takes a sale as it was read from the disk.
    pub(super) fn restore(&mut self, sale: SaleId, queue: Queue) {
        let slot = Slot { queue, touched: false };
        self.queues.insert(sale, slot);
    }

    pub(super) fn queue_mut(&mut self, sale: &SaleId) -> Result<&mut Queue, StoreError> {
        let slot = self.queues.get_mut(sale).ok_or_else(|| StoreError::UnknownSale(sale.clone()))?;
        slot.touched = true;
        Ok(&mut slot.queue)
    }

    /// The sales touched since they were last published.
    pub(super) fn touched(&mut self) -> impl Iterator<Item = (&SaleId, &mut Queue)> {
        self.queues.iter_mut().filter(|(_, slot)| slot.touched).map(|(sale, slot)| (sale, &mut slot.queue))
    }

    /// Shows readers what has been committed.
    pub(super) fn publish(&mut self, now: UnixMillis, views: &Views) {
        let mut published = BTreeMap::clone(&views.load());
        for (sale, slot) in self.queues.iter_mut().filter(|(_, slot)| slot.touched) {
            slot.touched = false;
            published.insert(sale.clone(), Arc::new(slot.queue.view(now)));
        }
        views.store(Arc::new(published));
    }

    /// Shows readers what has been read from the disk, and nothing else.
    pub(super) fn publish_all(&self, now: UnixMillis, views: &Views) {
        let published =
            self.queues.iter().map(|(sale, slot)| (sale.clone(), Arc::new(slot.queue.view(now)))).collect();
        views.store(Arc::new(published));
    }
}
