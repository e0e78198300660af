//! Every procedure, with arguments encoded and results decoded by `nfs3_types`, which shares no
//! code with this crate.

use nfs3_types::mount::{mountres3, mountstat3};
use nfs3_types::nfs3::*;
use nfs3_types::portmap::mapping;
use nfs3_types::rpc::{
    accept_stat_data, auth_unix, call_body, msg_body, opaque_auth, rejected_reply, reply_body, rpc_msg,
};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack};
use rdmascope_peer::nfs3::mount::Services;
use rdmascope_peer::nfs3::{Caller, Export, Handle, Limits, Operation, Stable, Time};
use rdmascope_wire::Xid;
use std::io::Cursor;

const NOW: Time = Time { seconds: 1_700_000_000, nanoseconds: 5 };

fn packed(value: &impl Pack) -> Vec<u8> {
    let mut out = Vec::new();
    value.pack(&mut out).unwrap();
    out
}

/// An export and its caller.
struct Bench {
    export: Export,
    uid: u32,
    xid: u32,
}

impl Bench {
    fn new(uid: u32) -> Bench {
        Bench { export: Export::new(Limits::default(), 0xabcd, NOW), uid, xid: 0 }
    }

    fn message(&self, program: u32, version: u32, procedure: u32, arguments: &impl Pack) -> Vec<u8> {
        let auth = auth_unix { uid: self.uid, gid: self.uid, gids: vec![5, 6], ..auth_unix::default() };
        let cred = opaque_auth::auth_unix(&auth);
        let body = call_body {
            rpcvers: 2,
            prog: program,
            vers: version,
            proc: procedure,
            cred,
            verf: opaque_auth::default(),
        };
        let mut message = packed(&rpc_msg { xid: self.xid, body: msg_body::CALL(body) });
        arguments.pack(&mut message).unwrap();
        message
    }

    /// Calls a procedure and decodes all of its results.
    fn call<T: Unpack>(&mut self, procedure: NFS_PROGRAM, arguments: &impl Pack) -> T {
        self.xid += 1;
        let message = self.message(PROGRAM, VERSION, procedure as u32, arguments);
        results(&self.export.call(&message, NOW).unwrap().message, self.xid)
    }

    fn root(&self) -> nfs_fh3 {
        nfs_fh3 { data: Opaque::owned(self.export.root().bytes().to_vec()) }
    }

    fn make(&mut self, name: &'static [u8]) -> nfs_fh3 {
        let how = createhow3::GUARDED(sattr3::default());
        let made: CREATE3res =
            self.call(NFS_PROGRAM::NFSPROC3_CREATE, &CREATE3args { where_: at(&self.root(), name), how });
        made.unwrap().obj.unwrap()
    }

    fn write(&mut self, file: &nfs_fh3, offset: u64, data: &'static [u8]) -> WRITE3res {
        let count = data.len() as u32;
        let stable = stable_how::UNSTABLE;
        let arguments =
            WRITE3args { file: file.clone(), offset, count, stable, data: Opaque::borrowed(data) };
        self.call(NFS_PROGRAM::NFSPROC3_WRITE, &arguments)
    }

    fn lookup(&mut self, directory: &nfs_fh3, name: &'static [u8]) -> Result<nfs_fh3, nfsstat3> {
        match self
            .call::<LOOKUP3res>(NFS_PROGRAM::NFSPROC3_LOOKUP, &LOOKUP3args { what: at(directory, name) })
        {
            Nfs3Result::Ok(found) => Ok(found.object),
            Nfs3Result::Err((status, _)) => Err(status),
        }
    }

    fn attributes(&mut self, object: &nfs_fh3) -> Result<fattr3, nfsstat3> {
        match self
            .call::<GETATTR3res>(NFS_PROGRAM::NFSPROC3_GETATTR, &GETATTR3args { object: object.clone() })
        {
            Nfs3Result::Ok(found) => Ok(found.obj_attributes),
            Nfs3Result::Err((status, _)) => Err(status),
        }
    }
}

fn at(directory: &nfs_fh3, name: &'static [u8]) -> diropargs3<'static> {
    diropargs3 { dir: directory.clone(), name: filename3(Opaque::borrowed(name)) }
}

fn reply(message: &[u8], xid: u32) -> (reply_body<'static>, Cursor<&[u8]>) {
    let mut cursor = Cursor::new(message);
    let (header, _) = rpc_msg::unpack(&mut cursor).unwrap();
    assert_eq!(header.xid, xid);
    let msg_body::REPLY(body) = header.body else { panic!() };
    (body, cursor)
}

fn results<T: Unpack>(message: &[u8], xid: u32) -> T {
    let (body, mut cursor) = reply(message, xid);
    let reply_body::MSG_ACCEPTED(accepted) = body else { panic!() };
    assert!(matches!(accepted.reply_data, accept_stat_data::SUCCESS), "{:?}", accepted.reply_data);
    let results = T::unpack(&mut cursor).unwrap().0;
    assert_eq!(cursor.position() as usize, message.len(), "bytes after the results");
    results
}

fn status<T, E>(result: Nfs3Result<T, E>) -> nfsstat3 {
    match result {
        Nfs3Result::Ok(_) => nfsstat3::NFS3_OK,
        Nfs3Result::Err((status, _)) => status,
    }
}

#[test]
fn file_procedures() {
    let mut bench = Bench::new(1000);
    let root = bench.root();
    let file = bench.make(b"file");
    let written = bench.write(&file, 3, b"hello").unwrap();
    assert_eq!((written.count, written.committed), (5, stable_how::FILE_SYNC));
    assert_eq!(written.file_wcc.before.unwrap().size, 0);
    let after = written.file_wcc.after.unwrap();
    assert_eq!((after.size, after.uid, after.mtime.seconds, after.mtime.nseconds), (8, 1000, NOW.seconds, 5));
    let commit = COMMIT3args { file: file.clone(), offset: 0, count: 0 };
    let committed = bench.call::<COMMIT3res>(NFS_PROGRAM::NFSPROC3_COMMIT, &commit).unwrap();
    assert_eq!(committed.verf, written.verf);
    let read = READ3args { file: file.clone(), offset: 1, count: 4 };
    let read = bench.call::<READ3res<'_>>(NFS_PROGRAM::NFSPROC3_READ, &read).unwrap();
    assert_eq!((&*read.data, read.count, read.eof), (&b"\0\0he"[..], 4, false));
    let read = READ3args { file: file.clone(), offset: 4, count: 4 };
    let read = bench.call::<READ3res<'_>>(NFS_PROGRAM::NFSPROC3_READ, &read).unwrap();
    assert_eq!((&*read.data, read.eof), (&b"ello"[..], true));
    let read = READ3args { file: root.clone(), offset: 0, count: 4 };
    assert_eq!(
        status(bench.call::<READ3res<'_>>(NFS_PROGRAM::NFSPROC3_READ, &read)),
        nfsstat3::NFS3ERR_INVAL
    );
    assert_eq!(status(bench.write(&file, u64::MAX, b"x")), nfsstat3::NFS3ERR_FBIG);
    // GUARDED, EXCLUSIVE and UNCHECKED on an existing file.
    let create = |how| CREATE3args { where_: at(&root, b"file"), how };
    let guarded = create(createhow3::GUARDED(sattr3::default()));
    assert_eq!(
        status(bench.call::<CREATE3res>(NFS_PROGRAM::NFSPROC3_CREATE, &guarded)),
        nfsstat3::NFS3ERR_EXIST
    );
    let exclusive = |name, verifier| CREATE3args {
        where_: at(&root, name),
        how: createhow3::EXCLUSIVE(createverf3(verifier)),
    };
    for (name, verifier, expected) in [
        (&b"file"[..], [1; 8], nfsstat3::NFS3ERR_EXIST),
        (b"own", [1; 8], nfsstat3::NFS3_OK),
        (b"own", [1; 8], nfsstat3::NFS3_OK),
        (b"own", [2; 8], nfsstat3::NFS3ERR_EXIST),
    ] {
        let made = bench.call::<CREATE3res>(NFS_PROGRAM::NFSPROC3_CREATE, &exclusive(name, verifier));
        assert_eq!(status(made), expected);
    }
    let shorter = sattr3 { size: Nfs3Option::Some(2), ..sattr3::default() };
    let made = bench
        .call::<CREATE3res>(NFS_PROGRAM::NFSPROC3_CREATE, &create(createhow3::UNCHECKED(shorter)))
        .unwrap();
    assert_eq!((made.obj.unwrap(), made.obj_attributes.unwrap().size), (file.clone(), 2));
    // SETATTR with a wrong and a correct guard.
    let attributes = bench.attributes(&file).unwrap();
    let wrong = nfstime3 { seconds: 1, nseconds: 1 };
    for (guard, expected) in [(wrong, nfsstat3::NFS3ERR_NOT_SYNC), (attributes.ctime, nfsstat3::NFS3_OK)] {
        let new_attributes = sattr3 { mode: Nfs3Option::Some(0o600), ..sattr3::default() };
        let set = SETATTR3args { object: file.clone(), new_attributes, guard: Nfs3Option::Some(guard) };
        assert_eq!(status(bench.call::<SETATTR3res>(NFS_PROGRAM::NFSPROC3_SETATTR, &set)), expected);
    }
    // Another user may neither read nor change it.
    bench.uid = 2000;
    let read = READ3args { file: file.clone(), offset: 0, count: 4 };
    assert_eq!(
        status(bench.call::<READ3res<'_>>(NFS_PROGRAM::NFSPROC3_READ, &read)),
        nfsstat3::NFS3ERR_ACCES
    );
    let new_attributes = sattr3 { mode: Nfs3Option::Some(0o777), ..sattr3::default() };
    let set = SETATTR3args { object: file.clone(), new_attributes, guard: Nfs3Option::None };
    assert_eq!(
        status(bench.call::<SETATTR3res>(NFS_PROGRAM::NFSPROC3_SETATTR, &set)),
        nfsstat3::NFS3ERR_PERM
    );
    let access = ACCESS3args { object: file.clone(), access: 0x3f };
    assert_eq!(bench.call::<ACCESS3res>(NFS_PROGRAM::NFSPROC3_ACCESS, &access).unwrap().access, 0);
    let access = ACCESS3args { object: root.clone(), access: 0x3f };
    assert_eq!(bench.call::<ACCESS3res>(NFS_PROGRAM::NFSPROC3_ACCESS, &access).unwrap().access, 0x1f);
    let remove = REMOVE3args { object: at(&root, b"file") };
    assert_eq!(status(bench.call::<REMOVE3res>(NFS_PROGRAM::NFSPROC3_REMOVE, &remove)), nfsstat3::NFS3_OK);
    assert_eq!(bench.attributes(&file).unwrap_err(), nfsstat3::NFS3ERR_STALE);
    let other = nfs_fh3 { data: Opaque::borrowed(b"another") };
    assert_eq!(bench.attributes(&other).unwrap_err(), nfsstat3::NFS3ERR_BADHANDLE);
}

#[test]
fn directory_procedures() {
    let mut bench = Bench::new(1000);
    let root = bench.root();
    let directory = MKDIR3args { where_: at(&root, b"d"), attributes: sattr3::default() };
    let made = bench.call::<MKDIR3res>(NFS_PROGRAM::NFSPROC3_MKDIR, &directory).unwrap();
    assert_eq!(made.dir_wcc.after.unwrap().nlink, 3);
    let directory = made.obj.unwrap();
    assert_eq!(bench.lookup(&directory, b"..").unwrap(), root);
    assert_eq!(bench.lookup(&directory, b"no").unwrap_err(), nfsstat3::NFS3ERR_NOENT);
    let file = bench.make(b"f");
    assert_eq!(bench.lookup(&file, b"no").unwrap_err(), nfsstat3::NFS3ERR_NOTDIR);
    let link = LINK3args { file: file.clone(), link: at(&directory, b"second") };
    let linked = bench.call::<LINK3res>(NFS_PROGRAM::NFSPROC3_LINK, &link).unwrap();
    assert_eq!(linked.file_attributes.unwrap().nlink, 2);
    let symlink = SYMLINK3args {
        where_: at(&root, b"s"),
        symlink: symlinkdata3 {
            symlink_attributes: sattr3::default(),
            symlink_data: nfspath3(Opaque::borrowed(b"d/second")),
        },
    };
    let link = bench.call::<SYMLINK3res>(NFS_PROGRAM::NFSPROC3_SYMLINK, &symlink).unwrap().obj.unwrap();
    let read =
        bench.call::<READLINK3res<'_>>(NFS_PROGRAM::NFSPROC3_READLINK, &READLINK3args { symlink: link });
    assert_eq!(&*read.unwrap().data.0, b"d/second");
    let wrong = bench
        .call::<READLINK3res<'_>>(NFS_PROGRAM::NFSPROC3_READLINK, &READLINK3args { symlink: file.clone() });
    assert_eq!(status(wrong), nfsstat3::NFS3ERR_INVAL);
    let fifo = MKNOD3args { where_: at(&root, b"p"), what: mknoddata3::NF3FIFO(sattr3::default()) };
    let made = bench.call::<MKNOD3res>(NFS_PROGRAM::NFSPROC3_MKNOD, &fifo).unwrap();
    assert_eq!(made.obj_attributes.unwrap().type_, ftype3::NF3FIFO);
    let rmdir = |name| RMDIR3args { object: at(&root, name) };
    for (name, expected) in [
        (&b"d"[..], nfsstat3::NFS3ERR_NOTEMPTY),
        (b"f", nfsstat3::NFS3ERR_NOTDIR),
        (b".", nfsstat3::NFS3ERR_INVAL),
        (b"..", nfsstat3::NFS3ERR_EXIST),
    ] {
        assert_eq!(status(bench.call::<RMDIR3res>(NFS_PROGRAM::NFSPROC3_RMDIR, &rmdir(name))), expected);
    }
    let rename = |from: diropargs3<'static>, to| RENAME3args { from, to };
    for (from, to, expected) in [
        // A directory below itself; a file onto a directory; a hard link onto the same file; a
        // move.
        (at(&root, b"d"), at(&directory, b"x"), nfsstat3::NFS3ERR_INVAL),
        (at(&root, b"f"), at(&root, b"d"), nfsstat3::NFS3ERR_EXIST),
        (at(&root, b"f"), at(&directory, b"second"), nfsstat3::NFS3_OK),
        (at(&root, b"f"), at(&directory, b"third"), nfsstat3::NFS3_OK),
        (at(&root, b"f"), at(&directory, b"third"), nfsstat3::NFS3ERR_NOENT),
    ] {
        let done = bench.call::<RENAME3res>(NFS_PROGRAM::NFSPROC3_RENAME, &rename(from, to));
        assert_eq!(status(done), expected);
    }
    let read =
        READDIR3args { dir: directory.clone(), cookie: 0, cookieverf: cookieverf3([0; 8]), count: 4096 };
    let read = bench.call::<READDIR3res<'_>>(NFS_PROGRAM::NFSPROC3_READDIR, &read).unwrap();
    let names: Vec<&[u8]> = read.reply.entries.0.iter().map(|entry| &*entry.name.0).collect();
    assert_eq!((names, read.reply.eof), (vec![&b"."[..], b"..", b"second", b"third"], true));
    // Entry by entry, as the size allows, with the verifier; another verifier is refused.
    let (mut cookie, mut verifier, mut names) = (0, cookieverf3([0; 8]), Vec::new());
    loop {
        let read = READDIRPLUS3args {
            dir: directory.clone(),
            cookie,
            cookieverf: verifier,
            dircount: 1,
            maxcount: 280,
        };
        let size = read.maxcount as usize;
        let read = bench.call::<READDIRPLUS3res<'_>>(NFS_PROGRAM::NFSPROC3_READDIRPLUS, &read).unwrap();
        assert!(packed(&read).len() <= size);
        let [entry] = &read.reply.entries.0[..] else { panic!("{} entries", read.reply.entries.0.len()) };
        names.push(entry.name.0.to_vec());
        assert_eq!(entry.name_attributes.clone().unwrap().fileid, entry.fileid);
        (cookie, verifier) = (entry.cookie, read.cookieverf);
        if read.reply.eof {
            break;
        }
    }
    assert_eq!(names, [&b"."[..], b"..", b"second", b"third"]);
    for (count, cookie, verifier, expected) in [
        (100, 0, cookieverf3([0; 8]), nfsstat3::NFS3ERR_TOOSMALL),
        (4096, 1, cookieverf3([9; 8]), nfsstat3::NFS3ERR_BAD_COOKIE),
    ] {
        let read = READDIR3args { dir: directory.clone(), cookie, cookieverf: verifier, count };
        assert_eq!(status(bench.call::<READDIR3res<'_>>(NFS_PROGRAM::NFSPROC3_READDIR, &read)), expected);
    }
}

#[test]
fn file_system_procedures() {
    let mut bench = Bench::new(0);
    let root = bench.root();
    let info = bench
        .call::<FSINFO3res>(NFS_PROGRAM::NFSPROC3_FSINFO, &FSINFO3args { fsroot: root.clone() })
        .unwrap();
    assert_eq!((info.rtmax, info.wtmax, info.maxfilesize), (1 << 20, 1 << 20, 256 << 20));
    let stat = bench
        .call::<FSSTAT3res>(NFS_PROGRAM::NFSPROC3_FSSTAT, &FSSTAT3args { fsroot: root.clone() })
        .unwrap();
    assert_eq!((stat.tbytes, stat.fbytes, stat.tfiles, stat.ffiles), (256 << 20, 256 << 20, 65_536, 65_536));
    let conf =
        bench.call::<PATHCONF3res>(NFS_PROGRAM::NFSPROC3_PATHCONF, &PATHCONF3args { object: root }).unwrap();
    assert_eq!((conf.name_max, conf.no_trunc, conf.case_insensitive), (255, true, false));
}

#[test]
fn repeated_call_gets_the_same_reply() {
    let mut bench = Bench::new(0);
    let remove = REMOVE3args { object: at(&bench.root(), b"f") };
    bench.make(b"f");
    let message = bench.message(PROGRAM, VERSION, NFS_PROGRAM::NFSPROC3_REMOVE as u32, &remove);
    let first = bench.export.call(&message, NOW);
    assert_eq!(status(results::<REMOVE3res>(&first.as_ref().unwrap().message, bench.xid)), nfsstat3::NFS3_OK);
    assert_eq!(bench.export.call(&message, NOW), first);
    // With another XID it is another call.
    bench.xid += 1;
    let message = bench.message(PROGRAM, VERSION, NFS_PROGRAM::NFSPROC3_REMOVE as u32, &remove);
    let again = bench.export.call(&message, NOW).unwrap().message;
    assert_eq!(status(results::<REMOVE3res>(&again, bench.xid)), nfsstat3::NFS3ERR_NOENT);
}

#[test]
fn invalid_rpc_headers_are_refused() {
    let mut bench = Bench::new(0);
    let root = bench.root();
    let mut accepted = |program, version, procedure| {
        let message = bench.message(program, version, procedure, &root);
        match reply(&bench.export.call(&message, NOW).unwrap().message, 0).0 {
            reply_body::MSG_ACCEPTED(accepted) => accepted.reply_data,
            denied => panic!("{denied:?}"),
        }
    };
    // NFSACL, NFSv4, an unknown procedure, arguments of another procedure.
    assert!(matches!(accepted(100_227, 3, 0), accept_stat_data::PROG_UNAVAIL));
    assert!(matches!(accepted(PROGRAM, 4, 1), accept_stat_data::PROG_MISMATCH { low: 3, high: 3 }));
    assert!(matches!(accepted(PROGRAM, 3, 22), accept_stat_data::PROC_UNAVAIL));
    assert!(matches!(accepted(PROGRAM, 3, 6), accept_stat_data::GARBAGE_ARGS));
    assert!(matches!(accepted(PROGRAM, 3, 0), accept_stat_data::SUCCESS));
    let mut message = bench.message(PROGRAM, 3, 0, &root);
    // RPCSEC_GSS.
    message[24..28].copy_from_slice(&6u32.to_be_bytes());
    let denied = reply(&bench.export.call(&message, NOW).unwrap().message, 0).0;
    assert!(matches!(denied, reply_body::MSG_DENIED(rejected_reply::AUTH_ERROR(_))));
    message[8..12].copy_from_slice(&3u32.to_be_bytes());
    let denied = reply(&bench.export.call(&message, NOW).unwrap().message, 0).0;
    assert!(matches!(denied, reply_body::MSG_DENIED(rejected_reply::RPC_MISMATCH { low: 2, high: 2 })));
}

#[test]
fn mount_and_port_mapper_procedures() {
    let bench = Bench::new(0);
    let services = Services {
        path: b"/export".to_vec(),
        root: bench.export.root(),
        address: [192, 0, 2, 2].into(),
        mount_port: 20048,
        nfs_port: 20049,
    };
    let call = |program, version, procedure, arguments: &[u8]| {
        let mut message = bench.message(program, version, procedure, &0u32);
        message.truncate(message.len() - 4);
        message.extend_from_slice(arguments);
        services.call(&message).unwrap()
    };
    for (path, is_exported) in
        [("/export", true), ("/export/", true), ("/", true), ("/other", false), ("", false)]
    {
        let reply = call(100_005, 3, 1, &packed(&Opaque::borrowed(path.as_bytes())));
        match results::<mountres3<'_>>(&reply, 0) {
            mountres3::Ok(found) => {
                assert!(is_exported);
                assert_eq!(&*found.fhandle.0, bench.export.root().bytes());
                assert_eq!(found.auth_flavors, [1, 0]);
            }
            mountres3::Err(status) => assert!(!is_exported && matches!(status, mountstat3::MNT3ERR_NOENT)),
        }
    }
    let exports: nfs3_types::mount::exports<'_, '_> = results(&call(100_005, 3, 5, &[]), 0);
    assert_eq!(&*exports.0[0].ex_dir.0, b"/export");
    let get = |prog, vers, prot| packed(&mapping { prog, vers, prot, port: 0 });
    for (arguments, port) in
        [(get(100_005, 3, 6), 20048u32), (get(100_005, 3, 17), 0), (get(100_003, 3, 6), 0)]
    {
        assert_eq!(results::<u32>(&call(100_000, 2, 3, &arguments), 0), port);
    }
    let dump: nfs3_types::portmap::pmaplist = results(&call(100_000, 2, 4, &[]), 0);
    assert_eq!(
        dump.0.iter().map(|found| (found.prog, found.port)).collect::<Vec<_>>(),
        [(100_000, 111), (100_005, 20048)]
    );
    // rpcbind 4, GETADDR of NFS on RDMA: 192.0.2.2, port 78 * 256 + 81.
    let mut arguments = [100_003u32.to_be_bytes(), 3u32.to_be_bytes()].concat();
    for text in ["rdma", "", ""] {
        arguments.extend(packed(&Opaque::borrowed(text.as_bytes())));
    }
    let address: Opaque<'static> = results(&call(100_000, 4, 3, &arguments), 0);
    assert_eq!(&*address, b"192.0.2.2.78.81");
}

#[test]
fn client_call_is_decoded_by_nfs3_types() {
    let mut caller = Caller::new(Xid(3), 7, 8);
    let file = Handle::new(b"handle").unwrap();
    let write = Operation::Write { file, offset: 1 << 40, stable: Stable::DataSync, data: b"abcde".to_vec() };
    let call = caller.call(&write);
    let mut cursor = Cursor::new(&call.message[..]);
    let (header, _) = rpc_msg::unpack(&mut cursor).unwrap();
    let msg_body::CALL(body) = header.body else { panic!() };
    assert_eq!((header.xid, body.prog, body.vers, body.proc), (3, PROGRAM, VERSION, 7));
    let (auth, _) = auth_unix::unpack(&mut &body.cred.body.0[..]).unwrap();
    assert_eq!((auth.uid, auth.gid, &*auth.machinename), (7, 8, &b"rdmascope"[..]));
    let (arguments, _) = WRITE3args::unpack(&mut cursor).unwrap();
    assert_eq!((arguments.offset, arguments.count, &*arguments.data), (1 << 40, 5, &b"abcde"[..]));
    assert_eq!(arguments.stable, stable_how::DATA_SYNC);
    assert_eq!(&call.message[call.reduce[0].clone()], b"abcde");
}
