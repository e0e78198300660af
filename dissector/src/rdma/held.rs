//! Deliveries held back until others arrive.

use super::{Delivery, Placement, Send};
use alloc::vec::Vec;

/// A delivery that owns its bytes.
#[derive(Clone, Debug)]
pub struct HeldDelivery {
    /// The delivery without its bytes.
    delivery: Delivery<'static>,
    bytes: Vec<u8>,
}

impl HeldDelivery {
    /// Copies a delivery.
    pub fn new(delivery: &Delivery<'_>) -> HeldDelivery {
        let (delivery, bytes) = match *delivery {
            Delivery::Send(send) => (Delivery::Send(send.without_bytes()), send.bytes),
            Delivery::Write(placement) => (Delivery::Write(placement.without_bytes()), placement.bytes),
            Delivery::ReadResponse(placement) => {
                (Delivery::ReadResponse(placement.without_bytes()), placement.bytes)
            }
            Delivery::ReadRequest(request) => (Delivery::ReadRequest(request), &[][..]),
            Delivery::Missing { packets, last } => (Delivery::Missing { packets, last }, &[][..]),
            Delivery::Damaged { seen } => (Delivery::Damaged { seen }, &[][..]),
            Delivery::Restarted => (Delivery::Restarted, &[][..]),
            Delivery::Repeated(repetition) => (Delivery::Repeated(repetition), &[][..]),
            Delivery::Faulty { seen, piece, position, fault } => {
                (Delivery::Faulty { seen, piece, position, fault }, &[][..])
            }
            Delivery::Refused { seen, position, refusal, request, operation } => {
                (Delivery::Refused { seen, position, refusal, request, operation }, &[][..])
            }
            Delivery::Unplaced { bytes } => (Delivery::Unplaced { bytes }, &[][..]),
            Delivery::Overflow => (Delivery::Overflow, &[][..]),
        };
        HeldDelivery { delivery, bytes: bytes.to_vec() }
    }

    /// Returns the delivery with its bytes.
    #[inline]
    pub fn delivery(&self) -> Delivery<'_> {
        let bytes = &self.bytes[..];
        match self.delivery {
            Delivery::Send(send) => Delivery::Send(Send { bytes, ..send }),
            Delivery::Write(placement) => Delivery::Write(Placement { bytes, ..placement }),
            Delivery::ReadResponse(placement) => Delivery::ReadResponse(Placement { bytes, ..placement }),
            other => other,
        }
    }

    /// The number of bytes held.
    pub fn captured(&self) -> usize {
        self.bytes.len()
    }
}

impl Send<'_> {
    fn without_bytes(&self) -> Send<'static> {
        let Send { first, seen, position, extent, length, missing, invalidated, .. } = *self;
        Send { first, seen, position, extent, bytes: &[], length, missing, invalidated }
    }
}

impl Placement<'_> {
    /// Returns the placement with an empty byte slice.
    pub(crate) fn without_bytes(&self) -> Placement<'static> {
        Placement { bytes: &[], ..*self }
    }
}
