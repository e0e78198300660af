//! The effects of operations on state, other than client IDs and sessions.

use super::follow::{Begin, Context, Current, Early, OperationOutcome, States};
use super::index::Group;
use super::table::{Key, Sink};
use super::{Access, End, Identity, Kind};
use rdmascope_dissector::record::Time;
use rdmascope_dissector::ulb::{Callback, FactKind, Nfs4, Operation, StateFact, StateId};
use rdmascope_wire::nfs::nfsstat4::{
    ADMIN_REVOKED, BAD_STATEID, DELEG_REVOKED, EXPIRED, NOMATCHING_LAYOUT, STALE_STATEID,
};
use rdmascope_wire::nfs::open_claim_type4;

/// The extents of LAYOUTRETURN and CB_LAYOUTRECALL for one file, and for all files.
const FILE: u32 = 1;
const ALL: u32 = 3;

/// The end of a stateid that an operation was refused with this status.
fn refusal(status: u32) -> Option<End> {
    match status {
        EXPIRED | ADMIN_REVOKED | DELEG_REVOKED => Some(End::Revoked),
        STALE_STATEID | BAD_STATEID => Some(End::Lost),
        _ => None,
    }
}

impl States {
    /// Processes an operation of a client.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn operation(
        &mut self,
        kind: Nfs4,
        operation: &Operation,
        facts: &[StateFact],
        outcome: OperationOutcome,
        current: &mut Current,
        context: &Context<'_>,
        sink: Sink<'_>,
    ) {
        match kind {
            Nfs4::ExchangeId
            | Nfs4::Setclientid
            | Nfs4::SetclientidConfirm
            | Nfs4::CreateSession
            | Nfs4::DestroyClientid
            | Nfs4::Renew => return self.client_operation(kind, facts, outcome, context, sink),
            Nfs4::DestroySession | Nfs4::BindConnToSession => {
                return self.session_operation(kind, facts, outcome, context, sink);
            }
            _ => {}
        }
        let Some(scope) = context.scope else { return };
        let handle = current.handle;
        let begin = Begin { context, operation, handle, scope };
        // The end that the operation causes for the stateid that it names.
        let ends = match kind {
            Nfs4::Close => Some(End::Closed),
            Nfs4::Delegreturn => Some(End::Returned),
            Nfs4::FreeStateid => Some(End::Freed),
            Nfs4::OffloadCancel => Some(End::Cancelled),
            Nfs4::OffloadStatus if context.transaction.details.session.offload_ended => Some(End::Completed),
            _ => None,
        };
        let state_kind = kind_named(kind, facts);
        let names = || {
            facts.iter().filter_map(|fact| {
                if let FactKind::ArgumentStateId(id) = fact.kind { Some(id) } else { None }
            })
        };
        let is_one = names().nth(1).is_none();
        let mut named = None;
        let mut tested = tested(facts);
        for (index, id) in names().enumerate() {
            let id = if is_current(&id) { current.stateid.unwrap_or(id) } else { id };
            let Some(identity) = Identity::of_stateid(&id) else { continue };
            let key = (scope, identity);
            named = Some(key);
            let outcome = match outcome {
                OperationOutcome::Succeeded if kind == Nfs4::TestStateid => tested(index),
                outcome => outcome,
            };
            match outcome {
                OperationOutcome::Succeeded => self.used(key, kind, state_kind, ends.is_none(), &begin, sink),
                OperationOutcome::Failed(status) if is_one || kind == Nfs4::TestStateid => {
                    match refusal(status) {
                        // A call that the capture lacks may have returned it.
                        Some(End::Lost) => self.end_all(&[key], End::Lost, context.shown, sink),
                        Some(end) => _ = self.end(key, end, context.shown, sink),
                        None => {}
                    }
                    continue;
                }
                OperationOutcome::Unknown
                    if ends.is_some() || matches!(kind, Nfs4::Locku | Nfs4::Layoutreturn) =>
                {
                    self.doubt(&key, context.call);
                    continue;
                }
                _ => continue,
            }
            if let Some(end) = ends {
                self.end(key, end, context.shown, sink);
            }
        }
        match (outcome, opens(facts)) {
            (OperationOutcome::Succeeded, _) => self.effects(kind, facts, named, current, &begin, sink),
            // Only minor version 0 uses the client ID in an OPEN.
            (OperationOutcome::Failed(status), Some((client, _))) if context.minor_version == 0 => {
                self.client_refused(client, status, context.shown, sink);
            }
            _ => {}
        }
    }

    /// Processes the effects of a successful operation other than naming a stateid.
    fn effects(
        &mut self,
        kind: Nfs4,
        facts: &[StateFact],
        named: Option<Key>,
        current: &mut Current,
        begin: &Begin<'_>,
        sink: Sink<'_>,
    ) {
        let Begin { context, operation, scope, .. } = *begin;
        let opens = opens(facts);
        for fact in facts {
            match fact.kind {
                FactKind::ResultStateId(id) => self.given(id, kind, facts, named, current, begin, sink),
                FactKind::Delegation { id, writes } => {
                    let reclaimed = opens.is_some_and(|(_, claim)| claim == open_claim_type4::PREVIOUS);
                    if let Some(mut lifetime) = self.begin(&id, Kind::Delegation, begin, sink) {
                        (lifetime.access, lifetime.reclaimed) = (Some(Access::writing(writes)), reclaimed);
                    }
                }
                FactKind::OffloadStateId(id) => {
                    self.begin(&id, Kind::Copy, begin, sink);
                }
                FactKind::NoLayoutLeft => {
                    if let Some(key) = named {
                        self.end(key, End::Returned, context.shown, sink);
                    }
                }
                FactKind::Layout { extent, .. } if kind == Nfs4::Layoutreturn && extent != FILE => {
                    self.layouts_returned(scope, extent, context, sink);
                }
                _ => {}
            }
        }
        if kind == Nfs4::Locku
            && let Some(key) = named
            && self.unlock(&key, operation)
        {
            self.end(key, End::Unlocked, context.shown, sink);
        }
    }

    /// Removes the range of a LOCKU, and returns whether it was the last one.
    fn unlock(&mut self, key: &Key, operation: &Operation) -> bool {
        let Some(mut lock) = self.table.live(key) else { return false };
        let (offset, count) = (operation.offset.unwrap_or(0), operation.count.unwrap_or(0));
        lock.ranges.remove(offset, count);
        // Ranges locked before the capture, or by a LOCK that it lacks, are unknown.
        let is_known = lock.is_begun() || (offset, count) == (0, u64::MAX);
        is_known && lock.ranges.is_empty()
    }

    /// Processes a stateid in the results of a successful operation.
    #[allow(clippy::too_many_arguments)]
    fn given(
        &mut self,
        id: StateId,
        kind: Nfs4,
        facts: &[StateFact],
        named: Option<Key>,
        current: &mut Current,
        begin: &Begin<'_>,
        sink: Sink<'_>,
    ) {
        let Begin { context, operation, .. } = *begin;
        let shares = facts.iter().find_map(|fact| match fact.kind {
            FactKind::Share { access, deny } => Some((Access::of_share(access), Access::of_share(deny))),
            _ => None,
        });
        if !matches!(kind, Nfs4::Close | Nfs4::CopyNotify) {
            current.stateid = Some(id);
        }
        match kind {
            Nfs4::Open => {
                let Some(mut lifetime) = self.begin(&id, Kind::Open, begin, sink) else { return };
                if let Some((access, deny)) = shares {
                    lifetime.access = Some(lifetime.access.unwrap_or_default().with(access));
                    lifetime.deny = Some(lifetime.deny.unwrap_or_default().with(deny));
                }
                if let Some((client, claim)) = opens(facts) {
                    lifetime.reclaimed |= claim == open_claim_type4::PREVIOUS;
                    if context.minor_version == 0 {
                        lifetime.client = Some(client);
                    }
                }
            }
            Nfs4::OpenDowngrade => {
                if let (Some((access, deny)), Some(key)) = (shares, named)
                    && let Some(mut lifetime) = self.table.live(&key)
                {
                    (lifetime.access, lifetime.deny) = (Some(access), Some(deny));
                }
            }
            Nfs4::Lock => {
                let locks = facts.iter().find_map(|fact| match fact.kind {
                    FactKind::Lock { kind, owner, reclaims } => Some((kind, owner.is_some(), reclaims)),
                    _ => None,
                });
                let Some((type_, is_new, reclaims)) = locks else { return };
                let open = if is_new { named.and_then(|key| self.table.live(&key)) } else { None };
                let open = open.map(|open| open.number);
                let Some(mut lock) = self.begin(&id, Kind::Lock, begin, sink) else { return };
                // The lock types WRITE_LT and WRITEW_LT.
                let access = if matches!(type_, 2 | 4) { Access::of_share(2) } else { Access::READ };
                lock.access = Some(lock.access.unwrap_or_default().with(access));
                lock.reclaimed |= reclaims;
                lock.ranges.add(operation.offset.unwrap_or(0), operation.count.unwrap_or(0));
                lock.open = lock.open.or(open);
            }
            Nfs4::Layoutget => {
                let mode = facts.iter().find_map(|fact| match fact.kind {
                    FactKind::Layout { mode, .. } => Some(mode),
                    _ => None,
                });
                if let Some(mut lifetime) = self.begin(&id, Kind::Layout, begin, sink) {
                    // The value of LAYOUTIOMODE4_RW.
                    let access = Access::writing(mode == Some(2));
                    lifetime.access = Some(lifetime.access.unwrap_or_default().with(access));
                }
            }
            _ => {}
        }
    }

    /// Processes a LAYOUTRETURN of a file system, or of all files.
    fn layouts_returned(&mut self, scope: u64, extent: u32, context: &Context<'_>, sink: Sink<'_>) {
        let at = context.shown;
        if extent == ALL {
            for key in self.table.keys_of(scope, Group::Layouts..=Group::Layouts) {
                self.end(key, End::Returned, at, sink);
            }
            return;
        }
        // The file system of a file is unknown.
        let sure = Group::Sure(Time(i64::MIN))..=Group::Sure(at.time);
        self.table.keys_of(scope, sure).iter().for_each(|key| self.doubt(key, at));
    }

    /// Processes a callback.
    pub(super) fn callback(
        &mut self,
        kind: Callback,
        operation: &Operation,
        facts: &[StateFact],
        outcome: OperationOutcome,
        context: &Context<'_>,
        sink: Sink<'_>,
    ) {
        let Some(scope) = context.scope else { return };
        let begin = Begin { context, operation, handle: operation.file_handle, scope };
        let key = facts.iter().find_map(|fact| match fact.kind {
            FactKind::ArgumentStateId(id) => Identity::of_stateid(&id).map(|identity| (scope, identity)),
            _ => None,
        });
        match (kind, key) {
            (Callback::Recall | Callback::Layoutrecall, Some(key)) => {
                self.recalled(key, context.call);
                if kind == Callback::Layoutrecall && outcome == OperationOutcome::Failed(NOMATCHING_LAYOUT) {
                    self.end(key, End::Returned, context.shown, sink);
                }
            }
            (Callback::Layoutrecall, None) => {
                let is_all =
                    facts.iter().any(|fact| matches!(fact.kind, FactKind::Layout { extent: ALL, .. }));
                // The file system of a file is unknown.
                if is_all {
                    let keys = self.table.keys_of(scope, Group::NotRecalled..=Group::NotRecalled);
                    keys.iter().for_each(|key| self.recalled(*key, context.call));
                }
            }
            (Callback::Offload, Some(key)) => {
                let failed = facts
                    .iter()
                    .any(|fact| matches!(fact.kind, FactKind::OffloadStatus(status) if status != 0));
                let end = if failed { End::Failed } else { End::Completed };
                if !self.end(key, end, context.call, sink) && self.table.settled(&key).is_none() {
                    self.early(key, Early::Ended(end, context.call));
                }
            }
            (Callback::PushDeleg, _) if outcome == OperationOutcome::Succeeded => {
                for fact in facts {
                    if let FactKind::Delegation { id, writes } = fact.kind
                        && let Some(mut lifetime) = self.begin(&id, Kind::Delegation, &begin, sink)
                    {
                        lifetime.access = Some(Access::writing(writes));
                    }
                }
            }
            _ => {}
        }
    }
}

/// Whether a stateid represents the current stateid (RFC 8881, section 16.2.3.1.2).
fn is_current(id: &StateId) -> bool {
    id[..4] == [0, 0, 0, 1] && id[4..] == [0; 12]
}

/// The client ID and the claim of an OPEN.
fn opens(facts: &[StateFact]) -> Option<(u64, u32)> {
    facts.iter().find_map(|fact| match fact.kind {
        FactKind::Open { client, claim } => Some((client, claim)),
        _ => None,
    })
}

/// The kind of state that an operation names with a stateid.
fn kind_named(kind: Nfs4, facts: &[StateFact]) -> Kind {
    match kind {
        Nfs4::Close | Nfs4::OpenDowngrade | Nfs4::OpenConfirm => Kind::Open,
        Nfs4::Lock => {
            let is_new = facts.iter().any(|fact| matches!(fact.kind, FactKind::Lock { owner: Some(_), .. }));
            if is_new { Kind::Open } else { Kind::Lock }
        }
        Nfs4::Locku => Kind::Lock,
        Nfs4::Open | Nfs4::Delegreturn => Kind::Delegation,
        Nfs4::Layoutcommit | Nfs4::Layoutreturn | Nfs4::Layouterror | Nfs4::Layoutstats => Kind::Layout,
        Nfs4::OffloadCancel | Nfs4::OffloadStatus => Kind::Copy,
        _ => Kind::Stateid,
    }
}

/// The results of TEST_STATEID for each of its stateids, which must be requested in order.
fn tested(facts: &[StateFact]) -> impl FnMut(usize) -> OperationOutcome {
    let tested = facts.iter().filter_map(|fact| match fact.kind {
        FactKind::Tested { index, status } => Some((index as usize, status)),
        _ => None,
    });
    let mut tested = tested.peekable();
    move |index| {
        while tested.next_if(|(other, _)| *other < index).is_some() {}
        let status = tested.next_if(|(other, _)| *other == index);
        status.map_or(OperationOutcome::Succeeded, |(_, status)| OperationOutcome::Failed(status))
    }
}
