//! The NFS version 3 procedures of an export (RFC 1813, section 3.3).

use super::export::{Export, MOST_DATA};
use super::store::{Content, EXECUTE, Id, MOST_LINKS, MOST_NAME, MOST_PATH, READ, WRITE, Who};
use super::types::{Attributes, FileType, Handle, Procedure, SetAttributes, Status, Time, numbered};
use alloc::vec::Vec;
use core::ops::Range;
use rdmascope_wire::Stop;
use rdmascope_wire::xdr::{Reader, put_opaque, put_u32, put_u64};

/// The output of a procedure: the reply, and the range of its DDP-eligible item.
pub(super) struct Results<'a> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) item: Option<Range<usize>>,
}

impl Results<'_> {
    fn word(&mut self, word: u32) {
        put_u32(self.out, word);
    }

    fn hyper(&mut self, hyper: u64) {
        put_u64(self.out, hyper);
    }

    /// Writes the status of an operation. Returns its result if the status is NFS3_OK.
    fn status<T>(&mut self, result: Result<T, Status>) -> Option<T> {
        let status = result.as_ref().err().copied().unwrap_or(Status::Ok);
        self.word(status.number());
        result.ok()
    }

    /// Writes a post_op_attr.
    fn attributes(&mut self, attributes: Option<Attributes>) {
        self.word(attributes.is_some().into());
        if let Some(attributes) = attributes {
            attributes.build(self.out);
        }
    }

    /// Writes a wcc_data.
    fn weak(&mut self, before: Option<Attributes>, after: Option<Attributes>) {
        self.word(before.is_some().into());
        if let Some(before) = before {
            self.hyper(before.size);
            before.modified.build(self.out);
            before.changed.build(self.out);
        }
        self.attributes(after);
    }

    /// Writes the DDP-eligible item as opaque data.
    fn item(&mut self, bytes: &[u8]) {
        let start = self.out.len() + 4;
        put_opaque(self.out, bytes);
        self.item = Some(start..start + bytes.len());
    }
}

type Context<'a> = (&'a Who, Time);

/// diropargs3.
struct Place<'a> {
    directory: Handle,
    name: &'a [u8],
}

impl<'a> Place<'a> {
    fn parse(args: &mut Reader<'a>) -> Result<Place<'a>, Stop> {
        Ok(Place { directory: Handle::parse(args)?, name: args.opaque()? })
    }
}

impl Export {
    /// Executes a procedure. Returns an error without any effect if its arguments are malformed.
    pub(super) fn execute(
        &mut self,
        procedure: Procedure,
        args: &mut Reader<'_>,
        to: &mut Results<'_>,
        context: Context<'_>,
    ) -> Result<(), Stop> {
        match procedure {
            Procedure::Null => Ok(()),
            Procedure::Getattr => self.getattr(args, to),
            Procedure::Setattr => self.setattr(args, to, context),
            Procedure::Lookup => self.lookup(args, to, context),
            Procedure::Access => self.access(args, to, context),
            Procedure::Readlink => self.readlink(args, to),
            Procedure::Read => self.read(args, to, context),
            Procedure::Write => self.write(args, to, context),
            Procedure::Create => self.create(args, to, context),
            Procedure::Mkdir => self.mkdir(args, to, context),
            Procedure::Symlink => self.symlink(args, to, context),
            Procedure::Mknod => self.mknod(args, to, context),
            Procedure::Remove => self.remove(args, to, context, false),
            Procedure::Rmdir => self.remove(args, to, context, true),
            Procedure::Rename => self.rename(args, to, context),
            Procedure::Link => self.link(args, to, context),
            Procedure::Readdir => self.readdir(args, to, context, false),
            Procedure::Readdirplus => self.readdir(args, to, context, true),
            Procedure::Fsstat => self.fsstat(args, to),
            Procedure::Fsinfo => self.fsinfo(args, to),
            Procedure::Pathconf => self.pathconf(args, to),
            Procedure::Commit => self.commit(args, to, context),
        }
    }

    fn attributes(&self, handle: &Handle) -> Option<Attributes> {
        self.attributes_of(self.file(handle).ok()?)
    }

    fn attributes_of(&self, id: Id) -> Option<Attributes> {
        self.store.attributes(id, self.instance)
    }

    fn getattr(&self, args: &mut Reader<'_>, to: &mut Results<'_>) -> Result<(), Stop> {
        let handle = Handle::parse(args)?;
        let found = self.file(&handle).and_then(|id| self.attributes_of(id).ok_or(Status::Stale));
        if let Some(attributes) = to.status(found) {
            attributes.build(to.out);
        }
        Ok(())
    }

    fn setattr(
        &mut self,
        args: &mut Reader<'_>,
        to: &mut Results<'_>,
        (who, now): Context<'_>,
    ) -> Result<(), Stop> {
        let (handle, set) = (Handle::parse(args)?, SetAttributes::parse(args)?);
        let guard = args.bool()?.then(|| Time::parse(args)).transpose()?;
        let before = self.attributes(&handle);
        let done = self.file(&handle).and_then(|id| {
            if guard.is_some_and(|guard| before.is_some_and(|before| before.changed != guard)) {
                return Err(Status::NotSync);
            }
            self.store.set(id, who, &set, now)
        });
        to.status(done);
        to.weak(before, self.attributes(&handle));
        Ok(())
    }

    fn lookup(&self, args: &mut Reader<'_>, to: &mut Results<'_>, (who, _): Context<'_>) -> Result<(), Stop> {
        let place = Place::parse(args)?;
        let found = self.file(&place.directory).and_then(|id| self.store.lookup(id, place.name, who));
        if let Some(id) = to.status(found) {
            self.handle(id).build(to.out);
            to.attributes(self.attributes_of(id));
        }
        to.attributes(self.attributes(&place.directory));
        Ok(())
    }

    fn access(&self, args: &mut Reader<'_>, to: &mut Results<'_>, (who, _): Context<'_>) -> Result<(), Stop> {
        let (handle, requested) = (Handle::parse(args)?, args.u32()?);
        let found = self.file(&handle);
        to.status(found);
        to.attributes(self.attributes(&handle));
        if let Ok(id) = found {
            // Section 3.3.4: READ 1, LOOKUP 2, MODIFY 4, EXTEND 8, DELETE 16, EXECUTE 32.
            let is_directory = matches!(self.store.content(id), Ok(Content::Directory(_)));
            let bits = [
                (READ, 1),
                (WRITE, 4 | 8 | if is_directory { 16 } else { 0 }),
                (EXECUTE, if is_directory { 2 } else { 32 }),
            ];
            let may = |right| self.store.rights(id, who, right) == right;
            let granted = bits.iter().filter(|(right, _)| may(*right)).fold(0, |all, (_, bits)| all | bits);
            to.word(granted & requested);
        }
        Ok(())
    }

    fn readlink(&self, args: &mut Reader<'_>, to: &mut Results<'_>) -> Result<(), Stop> {
        let handle = Handle::parse(args)?;
        let found = self.file(&handle).and_then(|id| match self.store.content(id)? {
            Content::Link(path) => Ok(path),
            _ => Err(Status::Inval),
        });
        let path = to.status(found);
        to.attributes(self.attributes(&handle));
        if let Some(path) = path {
            to.item(path);
        }
        Ok(())
    }

    fn read(&self, args: &mut Reader<'_>, to: &mut Results<'_>, (who, _): Context<'_>) -> Result<(), Stop> {
        let (handle, offset, count) = (Handle::parse(args)?, args.u64()?, args.u32()?);
        let found = self.file(&handle).and_then(|id| {
            let Content::File(bytes) = self.store.content(id)? else { return Err(Status::Inval) };
            // The right to execute a program implies reading it (section 4.4).
            self.store.want_data(id, who, READ).or_else(|_| self.store.want(id, who, EXECUTE))?;
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let end = bytes.len().min(start.saturating_add(count.min(MOST_DATA) as usize));
            Ok((&bytes[start..end], end == bytes.len()))
        });
        let found = to.status(found);
        to.attributes(self.attributes(&handle));
        if let Some((bytes, is_end)) = found {
            to.word(bytes.len() as u32);
            to.word(is_end.into());
            to.item(bytes);
        }
        Ok(())
    }

    fn write(
        &mut self,
        args: &mut Reader<'_>,
        to: &mut Results<'_>,
        (who, now): Context<'_>,
    ) -> Result<(), Stop> {
        let (handle, offset, count) = (Handle::parse(args)?, args.u64()?, args.u32()?);
        let at = args.position();
        if args.u32()? > 2 {
            return Err(Stop::malformed(args.layer(), at));
        }
        let data = args.opaque()?;
        let before = self.attributes(&handle);
        let done = self.file(&handle).and_then(|id| {
            if data.len() != count as usize || count > MOST_DATA {
                return Err(Status::Inval);
            }
            self.store.want_data(id, who, WRITE)?;
            self.store.write(id, offset, data, now)
        });
        let done = to.status(done);
        to.weak(before, self.attributes(&handle));
        if done.is_some() {
            to.word(count);
            // FILE_SYNC: memory has no more stable level.
            to.word(2);
            to.hyper(self.instance);
        }
        Ok(())
    }

    /// Writes the results of CREATE, MKDIR, SYMLINK and MKNOD.
    fn created(
        &self,
        to: &mut Results<'_>,
        directory: &Handle,
        before: Option<Attributes>,
        made: Result<Id, Status>,
    ) {
        if let Some(id) = to.status(made) {
            to.word(1);
            self.handle(id).build(to.out);
            to.attributes(self.attributes_of(id));
        }
        to.weak(before, self.attributes(directory));
    }

    fn create(
        &mut self,
        args: &mut Reader<'_>,
        to: &mut Results<'_>,
        (who, now): Context<'_>,
    ) -> Result<(), Stop> {
        let place = Place::parse(args)?;
        let at = args.position();
        let (set, guarded, verifier) = match args.u32()? {
            mode @ (0 | 1) => (SetAttributes::parse(args)?, mode == 1, None),
            2 => (SetAttributes::default(), true, Some(args.u64()?.to_be_bytes())),
            _ => return Err(Stop::malformed(args.layer(), at)),
        };
        let before = self.attributes(&place.directory);
        let made = self.file(&place.directory).and_then(|directory| {
            match self.store.lookup(directory, place.name, who) {
                Err(Status::NoEnt) => {
                    let new = Content::File(Vec::new());
                    let id = self.store.make(directory, place.name, new, (who, &set, now))?;
                    if let Some(verifier) = verifier {
                        self.store.made_with(id, verifier);
                    }
                    Ok(id)
                }
                Ok(id) if verifier.is_some_and(|verifier| self.store.is_made_with(id, verifier)) => Ok(id),
                Ok(id) if !guarded && matches!(self.store.content(id), Ok(Content::File(_))) => {
                    // UNCHECKED: only the size of an existing file changes, as at an open with
                    // truncation.
                    let set = SetAttributes { size: set.size, ..SetAttributes::default() };
                    if set.size.is_some() {
                        self.store.set(id, who, &set, now)?;
                    }
                    Ok(id)
                }
                Ok(_) => Err(Status::Exist),
                Err(status) => Err(status),
            }
        });
        self.created(to, &place.directory, before, made);
        Ok(())
    }

    fn mkdir(
        &mut self,
        args: &mut Reader<'_>,
        to: &mut Results<'_>,
        context: Context<'_>,
    ) -> Result<(), Stop> {
        let (place, set) = (Place::parse(args)?, SetAttributes::parse(args)?);
        self.make(to, &place, Ok(Content::Directory(super::store::Directory::default())), &set, context);
        Ok(())
    }

    fn symlink(
        &mut self,
        args: &mut Reader<'_>,
        to: &mut Results<'_>,
        context: Context<'_>,
    ) -> Result<(), Stop> {
        let (place, set, path) = (Place::parse(args)?, SetAttributes::parse(args)?, args.opaque()?);
        let content = match path.len() {
            0 => Err(Status::Inval),
            1..=MOST_PATH => Ok(Content::Link(path.to_vec())),
            _ => Err(Status::NameTooLong),
        };
        self.make(to, &place, content, &set, context);
        Ok(())
    }

    fn mknod(
        &mut self,
        args: &mut Reader<'_>,
        to: &mut Results<'_>,
        context: Context<'_>,
    ) -> Result<(), Stop> {
        let (place, kind) = (Place::parse(args)?, numbered(args, FileType::from_number)?);
        let (set, device) = match kind {
            FileType::Block | FileType::Character => {
                (SetAttributes::parse(args)?, (args.u32()?, args.u32()?))
            }
            FileType::Socket | FileType::Fifo => (SetAttributes::parse(args)?, (0, 0)),
            _ => {
                self.make(to, &place, Err(Status::BadType), &SetAttributes::default(), context);
                return Ok(());
            }
        };
        self.make(to, &place, Ok(Content::Special(kind, device)), &set, context);
        Ok(())
    }

    fn make(
        &mut self,
        to: &mut Results<'_>,
        place: &Place<'_>,
        content: Result<Content, Status>,
        set: &SetAttributes,
        (who, now): Context<'_>,
    ) {
        let before = self.attributes(&place.directory);
        let made = self.file(&place.directory).and_then(|directory| {
            self.store.directory(directory)?;
            self.store.make(directory, place.name, content?, (who, set, now))
        });
        self.created(to, &place.directory, before, made);
    }

    fn remove(
        &mut self,
        args: &mut Reader<'_>,
        to: &mut Results<'_>,
        context: Context<'_>,
        wants_directory: bool,
    ) -> Result<(), Stop> {
        let place = Place::parse(args)?;
        let before = self.attributes(&place.directory);
        let done = self
            .file(&place.directory)
            .and_then(|id| self.store.remove(id, place.name, wants_directory, context));
        to.status(done);
        to.weak(before, self.attributes(&place.directory));
        Ok(())
    }

    fn rename(
        &mut self,
        args: &mut Reader<'_>,
        to: &mut Results<'_>,
        context: Context<'_>,
    ) -> Result<(), Stop> {
        let (old, new) = (Place::parse(args)?, Place::parse(args)?);
        let before = (self.attributes(&old.directory), self.attributes(&new.directory));
        let done = self.file(&old.directory).and_then(|from| {
            let into = self.file(&new.directory)?;
            self.store.rename((from, old.name), (into, new.name), context)
        });
        to.status(done);
        to.weak(before.0, self.attributes(&old.directory));
        to.weak(before.1, self.attributes(&new.directory));
        Ok(())
    }

    fn link(
        &mut self,
        args: &mut Reader<'_>,
        to: &mut Results<'_>,
        context: Context<'_>,
    ) -> Result<(), Stop> {
        let (handle, place) = (Handle::parse(args)?, Place::parse(args)?);
        let before = self.attributes(&place.directory);
        let done = self.file(&handle).and_then(|id| {
            let directory = self.file(&place.directory)?;
            self.store.link(id, (directory, place.name), context)
        });
        to.status(done);
        to.attributes(self.attributes(&handle));
        to.weak(before, self.attributes(&place.directory));
        Ok(())
    }

    /// READDIR and READDIRPLUS.
    fn readdir(
        &self,
        args: &mut Reader<'_>,
        to: &mut Results<'_>,
        (who, _): Context<'_>,
        plus: bool,
    ) -> Result<(), Stop> {
        let (handle, cookie, verifier) = (Handle::parse(args)?, args.u64()?, args.u64()?);
        // dircount limits fileid, name and cookie. A reply is never longer than a READ.
        let most_names = if plus { args.u32()? } else { u32::MAX };
        let most = args.u32()?.min(MOST_DATA) as usize;
        let attributes = self.attributes(&handle);
        let mut list = Vec::new();
        let mut lister = Results { out: &mut list, item: None };
        let done = self.file(&handle).and_then(|id| {
            self.store.want(id, who, READ)?;
            if cookie != 0 && verifier != self.instance {
                return Err(Status::BadCookie);
            }
            // The attributes of the directory, the verifier, and after the entries the end of the
            // list and eof.
            let (mut left, mut left_names) =
                (most.saturating_sub(4 + Attributes::LENGTH + 8 + 8), most_names as usize);
            if most < 4 + Attributes::LENGTH + 16 {
                return Err(Status::TooSmall);
            }
            let (mut count, mut is_end) = (0, true);
            for entry in self.store.list(id, cookie)? {
                let name_length = 24 + entry.name.len().next_multiple_of(4);
                let length = name_length + if plus { 8 + Attributes::LENGTH + 20 } else { 0 };
                // At least one name, regardless of dircount, so that the client makes progress.
                if length > left || count > 0 && name_length > left_names {
                    is_end = false;
                    break;
                }
                (left, left_names) = (left - length, left_names.saturating_sub(name_length));
                count += 1;
                lister.word(1);
                lister.hyper(entry.id);
                put_opaque(lister.out, entry.name);
                lister.hyper(entry.cookie);
                if plus {
                    lister.attributes(self.attributes_of(entry.id));
                    lister.word(1);
                    self.handle(entry.id).build(lister.out);
                }
            }
            if count == 0 && !is_end {
                return Err(Status::TooSmall);
            }
            lister.word(0);
            lister.word(is_end.into());
            Ok(())
        });
        let done = to.status(done);
        to.attributes(attributes);
        if done.is_some() {
            to.hyper(self.instance);
            to.out.extend_from_slice(&list);
        }
        Ok(())
    }

    fn fsstat(&self, args: &mut Reader<'_>, to: &mut Results<'_>) -> Result<(), Stop> {
        let handle = Handle::parse(args)?;
        let found = to.status(self.file(&handle));
        to.attributes(self.attributes(&handle));
        if found.is_some() {
            let limits = self.store.limits;
            let bytes = limits.most_bytes - self.store.bytes;
            let files = (limits.most_names - self.store.names) as u64;
            for hyper in [limits.most_bytes, bytes, bytes, limits.most_names as u64, files, files] {
                to.hyper(hyper);
            }
            to.word(0);
        }
        Ok(())
    }

    fn fsinfo(&self, args: &mut Reader<'_>, to: &mut Results<'_>) -> Result<(), Stop> {
        let handle = Handle::parse(args)?;
        let found = to.status(self.file(&handle));
        to.attributes(self.attributes(&handle));
        if found.is_some() {
            // rtmax, rtpref, rtmult, wtmax, wtpref, wtmult, dtpref.
            for word in [MOST_DATA, MOST_DATA, 4096, MOST_DATA, MOST_DATA, 4096, 65_536] {
                to.word(word);
            }
            to.hyper(self.store.limits.most_file);
            Time { seconds: 0, nanoseconds: 1 }.build(to.out);
            // FSF3_LINK, FSF3_SYMLINK, FSF3_HOMOGENEOUS, FSF3_CANSETTIME.
            to.word(0x1b);
        }
        Ok(())
    }

    fn pathconf(&self, args: &mut Reader<'_>, to: &mut Results<'_>) -> Result<(), Stop> {
        let handle = Handle::parse(args)?;
        let found = to.status(self.file(&handle));
        to.attributes(self.attributes(&handle));
        if found.is_some() {
            // linkmax, name_max, no_trunc, chown_restricted, case_insensitive, case_preserving.
            for word in [MOST_LINKS, MOST_NAME as u32, 1, 1, 0, 1] {
                to.word(word);
            }
        }
        Ok(())
    }

    fn commit(&self, args: &mut Reader<'_>, to: &mut Results<'_>, (who, _): Context<'_>) -> Result<(), Stop> {
        let handle = Handle::parse(args)?;
        args.u64()?;
        args.u32()?;
        let attributes = self.attributes(&handle);
        let done = self.file(&handle).and_then(|id| match self.store.content(id)? {
            Content::File(_) => self.store.want_data(id, who, WRITE),
            _ => Err(Status::Inval),
        });
        let done = to.status(done);
        to.weak(attributes, attributes);
        if done.is_some() {
            to.hyper(self.instance);
        }
        Ok(())
    }
}
