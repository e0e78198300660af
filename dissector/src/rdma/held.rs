//! A delivery that waits for others.

use super::{Delivery, Placement, Send};
use alloc::vec::Vec;

/// A delivery with its own copy of the bytes.
#[derive(Clone, Debug)]
pub struct HeldDelivery {
    /// It, without its bytes.
    delivery: Delivery<'static>,
    bytes: Vec<u8>,
}

impl HeldDelivery {
    /// Keeps a delivery.
    pub fn new(delivery: &Delivery<'_>) -> HeldDelivery {
        let (delivery, bytes) = match *delivery {
            Delivery::Send(send) => (Delivery::Send(send.without_bytes()), send.bytes),
            Delivery::Write(placement) => (Delivery::Write(placement.without_bytes()), placement.bytes),
            Delivery::ReadResponse(placement) => {
                (Delivery::ReadResponse(placement.without_bytes()), placement.bytes)
            }
            Delivery::ReadRequest(request) => (Delivery::ReadRequest(request), &[][..]),
            Delivery::Missing { packets } => (Delivery::Missing { packets }, &[][..]),
            Delivery::Restarted => (Delivery::Restarted, &[][..]),
            Delivery::Repeated(repetition) => (Delivery::Repeated(repetition), &[][..]),
            Delivery::Faulty { seen, piece, position, fault } => {
                (Delivery::Faulty { seen, piece, position, fault }, &[][..])
            }
            Delivery::Refused { seen, position, refusal, request } => {
                (Delivery::Refused { seen, position, refusal, request }, &[][..])
            }
            Delivery::Unplaced { bytes } => (Delivery::Unplaced { bytes }, &[][..]),
            Delivery::Overflow => (Delivery::Overflow, &[][..]),
        };
        HeldDelivery { delivery, bytes: bytes.to_vec() }
    }

    /// The delivery as it came.
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

    /// Bytes of it that are kept.
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
    /// It, without its bytes.
    pub(crate) fn without_bytes(&self) -> Placement<'static> {
        Placement { bytes: &[], ..*self }
    }
}
