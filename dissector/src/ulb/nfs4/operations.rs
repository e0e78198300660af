//! The operations of a COMPOUND.

use super::super::rows::{either, nothing, operations, status, success};
use super::arguments::*;
use super::parts::*;
use super::results::*;

operations! {
    /// Operations of NFS version 4, `nfs_opnum4`, of all minor versions.
    pub enum Nfs4 {
        from "RFC 7531", Some(0) => {
                3 Access             "ACCESS"               principal Nothing,  word,                 success(two_words);
                4 Close              "CLOSE"                principal Nothing,  close,                success(given);
                5 Commit             "COMMIT"               principal Nothing,  commit,               success(verifier);
                6 Create             "CREATE"               principal Argument, create,               success(created);
                7 Delegpurge         "DELEGPURGE"           principal Nothing,  clientid,             status();
                8 Delegreturn        "DELEGRETURN"          principal Nothing,  named,                status();
                9 Getattr            "GETATTR"              auxiliary Nothing,  getattr,              success(attributes);
               10 Getfh              "GETFH"                auxiliary Nothing,  nothing,              success(file_handle);
               11 Link               "LINK"                 principal Nothing,  file_name,            success(change_info);
               12 Lock               "LOCK"                 principal Nothing,  lock,                 either(given, denied);
               13 Lockt              "LOCKT"                principal Nothing,  lockt,                either(nothing, denied);
               14 Locku              "LOCKU"                principal Nothing,  locku,                success(given);
               15 Lookup             "LOOKUP"               principal Nothing,  file_name,            status();
               16 Lookupp            "LOOKUPP"              principal Nothing,  nothing,              status();
               17 Nverify            "NVERIFY"              principal Nothing,  attributes,           status();
               18 Open               "OPEN"                 principal Nothing,  open,                 success(opened);
               19 Openattr           "OPENATTR"             principal Nothing,  flag,                 status();
               20 OpenConfirm        "OPEN_CONFIRM"         principal Nothing,  open_confirm,         success(given);
               21 OpenDowngrade      "OPEN_DOWNGRADE"       principal Nothing,  open_downgrade,       success(given);
               22 Putfh              "PUTFH"                auxiliary Nothing,  putfh,                status();
               23 Putpubfh           "PUTPUBFH"             auxiliary Nothing,  nothing,              status();
               24 Putrootfh          "PUTROOTFH"            auxiliary Nothing,  nothing,              status();
               25 Read               "READ"                 principal Result,   read,                 success(read_data);
               26 Readdir            "READDIR"              principal Nothing,  readdir,              success(entries);
               27 Readlink           "READLINK"             principal Result,   nothing,              success(link_text);
               28 Remove             "REMOVE"               principal Nothing,  file_name,            success(change_info);
               29 Rename             "RENAME"               principal Nothing,  rename,               success(both_changed);
               30 Renew              "RENEW"                principal Nothing,  clientid,             status();
               31 Restorefh          "RESTOREFH"            auxiliary Nothing,  nothing,              status();
               32 Savefh             "SAVEFH"               auxiliary Nothing,  nothing,              status();
               33 Secinfo            "SECINFO"              principal Nothing,  file_name,            success(flavors);
               34 Setattr            "SETATTR"              principal Nothing,  setattr,              either(bitmap, bitmap);
               35 Setclientid        "SETCLIENTID"          principal Nothing,  setclientid,          either(client_given, in_use);
               36 SetclientidConfirm "SETCLIENTID_CONFIRM"  principal Nothing,  setclientid_confirm,  status();
               37 Verify             "VERIFY"               principal Nothing,  attributes,           status();
               38 Write              "WRITE"                principal Argument, write,                success(written);
               39 ReleaseLockowner   "RELEASE_LOCKOWNER"    principal Nothing,  release_lockowner,    status();
            10044 Illegal            "ILLEGAL"              principal Nothing,  nothing,              status();
        }
        from "RFC 5662", Some(1) => {
               40 BackchannelCtl     "BACKCHANNEL_CTL"      principal Nothing,  backchannel_ctl,      status();
               41 BindConnToSession  "BIND_CONN_TO_SESSION" principal Nothing,  bind_conn_to_session, success(bound);
               42 ExchangeId         "EXCHANGE_ID"          principal Nothing,  exchange_id,          success(exchanged);
               43 CreateSession      "CREATE_SESSION"       principal Nothing,  create_session,       success(session_created);
               44 DestroySession     "DESTROY_SESSION"      principal Nothing,  sessionid,            status();
               45 FreeStateid        "FREE_STATEID"         principal Nothing,  named,                status();
               46 GetDirDelegation   "GET_DIR_DELEGATION"   principal Nothing,  get_dir_delegation,   success(directory_delegation);
               47 Getdeviceinfo      "GETDEVICEINFO"        principal Nothing,  getdeviceinfo,        either(device, too_small);
               48 Getdevicelist      "GETDEVICELIST"        principal Nothing,  getdevicelist,        success(devices);
               49 Layoutcommit       "LAYOUTCOMMIT"         principal Nothing,  layoutcommit,         success(new_size);
               50 Layoutget          "LAYOUTGET"            principal Nothing,  layoutget,            either(layouts, try_later);
               51 Layoutreturn       "LAYOUTRETURN"         principal Nothing,  layoutreturn,         success(layouts_left);
               52 SecinfoNoName      "SECINFO_NO_NAME"      principal Nothing,  secinfo_no_name,      success(flavors);
               53 Sequence           "SEQUENCE"             auxiliary Nothing,  sequence,             success(sequenced);
               54 SetSsv             "SET_SSV"              principal Nothing,  set_ssv,              success(opaque);
               55 TestStateid        "TEST_STATEID"         principal Nothing,  stateids,             success(tested);
               56 WantDelegation     "WANT_DELEGATION"      principal Nothing,  want_delegation,      success(delegation);
               57 DestroyClientid    "DESTROY_CLIENTID"     principal Nothing,  clientid,             status();
               58 ReclaimComplete    "RECLAIM_COMPLETE"     principal Nothing,  reclaim_complete,     status();
        }
        from "RFC 7863", Some(2) => {
               59 Allocate           "ALLOCATE"             principal Nothing,  allocate,             status();
               60 Copy               "COPY"                 principal Nothing,  copy,                 either(copied, no_requirements);
               61 CopyNotify         "COPY_NOTIFY"          principal Nothing,  copy_notify,          success(copy_allowed);
               62 Deallocate         "DEALLOCATE"           principal Nothing,  allocate,             status();
               63 IoAdvise           "IO_ADVISE"            principal Nothing,  io_advise,            success(bitmap);
               64 Layouterror        "LAYOUTERROR"          principal Nothing,  layouterror,          status();
               65 Layoutstats        "LAYOUTSTATS"          principal Nothing,  layoutstats,          status();
               66 OffloadCancel      "OFFLOAD_CANCEL"       principal Nothing,  offloaded,            status();
               67 OffloadStatus      "OFFLOAD_STATUS"       principal Nothing,  offloaded,            success(offload_status);
               68 ReadPlus           "READ_PLUS"            principal Nothing,  read,                 success(read_plus_data);
               69 Seek               "SEEK"                 principal Nothing,  seek,                 success(sought);
               70 WriteSame          "WRITE_SAME"           principal Nothing,  write_same,           success(same_written);
               71 Clone              "CLONE"                principal Nothing,  clone,                status();
        }
        from "RFC 8276", Some(2) => {
               72 Getxattr           "GETXATTR"             principal Nothing,  file_name,            success(value);
               73 Setxattr           "SETXATTR"             principal Nothing,  setxattr,             success(change_info);
               74 Listxattrs         "LISTXATTRS"           principal Nothing,  listxattrs,           success(names);
               75 Removexattr        "REMOVEXATTR"          principal Nothing,  file_name,            success(change_info);
        }
    }
}
