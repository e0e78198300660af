//! The system calls allowed to a confined process. All others fail with EPERM.

use super::Reach;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;

/// Calls that are allowed with any arguments: I/O on open descriptors, memory, time, threads, and
/// signals to the process itself. Some are used only by other C libraries.
const ALLOWED: &[libc::c_long] = &[
    // Open descriptors.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_pipe2,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    // Existing sockets. A packet socket is bound again when its interface comes back.
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_bind,
    // Memory. The rules for mmap and mprotect are below.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // Time.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    // Threads. The rule for clone is below.
    libc::SYS_clone3,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_membarrier,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Signals.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // Process information.
    libc::SYS_getrandom,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getrusage,
    libc::SYS_uname,
    libc::SYS_sysinfo,
];

/// Calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const ALLOWED_OLD: &[libc::c_long] = &[
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_wait,
    libc::SYS_accept,
    libc::SYS_dup2,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLD: &[libc::c_long] = &[];

/// Opening, creating and removing files. Landlock restricts which files.
const FILES: &[libc::c_long] = &[libc::SYS_openat, libc::SYS_unlinkat];
#[cfg(target_arch = "x86_64")]
const FILES_OLD: &[libc::c_long] = &[libc::SYS_open, libc::SYS_creat, libc::SYS_unlink];
#[cfg(not(target_arch = "x86_64"))]
const FILES_OLD: &[libc::c_long] = &[];

/// Additional calls for [`Reach::Paths`]: folders, replacing files, and waiting for the pager,
/// which is already running.
const PATHS: &[libc::c_long] = &[
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_mkdirat,
    libc::SYS_renameat2,
    libc::SYS_faccessat,
    // realpath(3) uses it to check that the folder before `..` exists.
    libc::SYS_faccessat2,
    libc::SYS_fchown,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_wait4,
    libc::SYS_waitid,
];
#[cfg(target_arch = "x86_64")]
const PATHS_OLD: &[libc::c_long] = &[
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_access,
];
#[cfg(target_arch = "aarch64")]
const PATHS_OLD: &[libc::c_long] = &[libc::SYS_renameat];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const PATHS_OLD: &[libc::c_long] = &[];

/// Refuses all other calls. `removes`: folders can be removed, which landlock restricts. Returns
/// false if the kernel has no seccomp or its rules for this architecture are unknown.
pub(super) fn refuse(reach: Reach<'_>, removes: bool) -> bool {
    // The first filter makes the C library start threads with clone, whose flags a filter can
    // check.
    [no_clone3(), allowed(reach, removes)]
        .into_iter()
        .all(|filter| filter.and_then(|program| apply_filter_all_threads(&program).ok()).is_some())
}

/// Makes clone3 fail with ENOSYS. Its flags are in memory, which a filter cannot read.
fn no_clone3() -> Option<BpfProgram> {
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    program(rules, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))
}

fn allowed(reach: Reach<'_>, removes: bool) -> Option<BpfProgram> {
    let more: &[&[libc::c_long]] = match reach {
        Reach::Nothing => &[],
        Reach::Below(_) => &[FILES, FILES_OLD],
        Reach::Paths { .. } => &[FILES, FILES_OLD, PATHS, PATHS_OLD],
    };
    let calls = ALLOWED.iter().chain(ALLOWED_OLD).chain(more.iter().copied().flatten());
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = calls.map(|call| (*call, Vec::new())).collect();
    if removes {
        rules.insert(libc::SYS_unlinkat, Vec::new());
    }
    // Only threads, no processes.
    let thread = libc::CLONE_THREAD as u64;
    rules.insert(libc::SYS_clone, vec![masked(0, thread, thread)?]);
    // No new executable memory.
    let execute = libc::PROT_EXEC as u64;
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![masked(2, execute, 0)?]);
    }
    // Signals to the process itself, which abort and raise send.
    rules.insert(libc::SYS_tgkill, vec![equal(0, std::process::id())?]);
    // Names of threads and of memory.
    const PR_SET_VMA: u32 = 0x5356_4d41;
    rules.insert(libc::SYS_prctl, one_of(0, &[libc::PR_SET_NAME as u32, PR_SET_VMA])?);
    // Terminal attributes and size, but not TIOCSTI, which injects input. The index of an interface
    // that came back.
    let requests = [
        libc::TCGETS,
        // `tui` restores the terminal settings.
        libc::TCSETS,
        libc::TCGETS2,
        libc::TCSETS2,
        libc::TIOCGWINSZ,
        libc::FIONBIO,
        libc::FIONREAD,
        libc::SIOCGIFINDEX,
        libc::SIOCGIFFLAGS,
    ];
    rules.insert(libc::SYS_ioctl, one_of(1, &requests.map(|request| request as u32))?);
    if matches!(reach, Reach::Paths { .. }) {
        // A new file gets the permissions of the file that it replaces, without set-user-ID and
        // set-group-ID.
        let set_id_bits = u64::from(libc::S_ISUID | libc::S_ISGID);
        rules.insert(libc::SYS_fchmod, vec![masked(1, set_id_bits, 0)?]);
    }
    // Limits can be read but not set.
    rules.insert(libc::SYS_prlimit64, vec![masked(2, u64::MAX, 0)?]);
    program(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

fn program(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    else_: SeccompAction,
    then: SeccompAction,
) -> Option<BpfProgram> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    SeccompFilter::new(rules, else_, then, architecture).ok()?.try_into().ok()
}

/// Compares a register-sized argument.
fn masked(argument: u8, mask: u64, value: u64) -> Option<SeccompRule> {
    rule(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(mask), value)
}

/// Compares an int argument, ignoring the upper 32 bits.
fn equal(argument: u8, value: u32) -> Option<SeccompRule> {
    rule(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value.into())
}

fn one_of(argument: u8, values: &[u32]) -> Option<Vec<SeccompRule>> {
    values.iter().map(|value| equal(argument, *value)).collect()
}

fn rule(argument: u8, length: SeccompCmpArgLen, operator: SeccompCmpOp, value: u64) -> Option<SeccompRule> {
    let condition = SeccompCondition::new(argument, length, operator, value).ok()?;
    SeccompRule::new(vec![condition]).ok()
}
