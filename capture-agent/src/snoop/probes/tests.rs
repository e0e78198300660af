use super::super::btf::tests::Builder;
use super::*;

/// The kernel structures that probes use. `server` is the function that posts the server's Sends,
/// `without` a member to leave out.
fn kernel(server: &str, without: &str) -> Btf {
    let mut file = Builder::new();
    let (number, long) = (file.number(4), file.number(8));
    let bytes = file.pointer(number);
    macro_rules! structure {
        ($name:expr, $size:expr, $($member:expr),+) => {{
            let members: Vec<(&str, u32, u32)> = vec![$($member),+];
            let members: Vec<_> = members.into_iter().filter(|(name, ..)| *name != without).collect();
            file.structure($name, $size, &members)
        }};
    }
    let device = structure!("ib_device", 64, ("index", number, 60));
    let device = file.pointer(device);
    let qp = structure!("ib_qp", 64, ("device", device, 0), ("qp_num", number, 40));
    let qp = file.pointer(qp);
    let id = structure!("rdma_cm_id", 64, ("qp", qp, 16));
    let id = file.pointer(id);
    let ep = structure!("rpcrdma_ep", 64, ("re_id", id, 8));
    let ep = file.pointer(ep);
    let xprt = structure!("rpcrdma_xprt", 512, ("rx_ep", ep, 256));
    let xprt = file.pointer(xprt);
    let kvec = structure!("kvec", 16, ("iov_base", bytes, 0), ("iov_len", long, 8));
    let xdr = structure!("xdr_buf", 64, ("head", kvec, 0), ("tail", kvec, 16), ("len", number, 56));
    let slot = structure!("rpc_rqst", 256, ("rq_snd_buf", xdr, 24));
    let sge = structure!("ib_sge", 16, ("addr", long, 0), ("length", number, 8));
    let sge = file.pointer(sge);
    let ex = structure!("", 4, ("invalidate_rkey", number, 0));
    let wr = structure!(
        "ib_send_wr",
        64,
        ("sg_list", sge, 16),
        ("num_sge", number, 24),
        ("opcode", number, 28),
        ("ex", ex, 36)
    );
    let regbuf = structure!("rpcrdma_regbuf", 64, ("rg_data", bytes, 32));
    let regbuf = file.pointer(regbuf);
    let req = structure!(
        "rpcrdma_req",
        1024,
        ("rl_slot", slot, 0),
        ("rl_wr", wr, 300),
        ("rl_rdmabuf", regbuf, 400)
    );
    let req = file.pointer(req);
    file.function("frwr_send", &[xprt, req]);
    let rep = structure!(
        "rpcrdma_rep",
        256,
        ("rr_wc_flags", number, 28),
        ("rr_inv_rkey", number, 32),
        ("rr_rdmabuf", regbuf, 40),
        ("rr_rxprt", xprt, 48),
        ("rr_hdrbuf", xdr, 72)
    );
    let rep = file.pointer(rep);
    file.function("rpcrdma_reply_handler", &[rep]);
    let svcxprt = structure!("svcxprt_rdma", 1024, ("sc_qp", qp, 664));
    let svcxprt = file.pointer(svcxprt);
    let send = structure!("svc_rdma_send_ctxt", 512, ("sc_send_wr", wr, 16), ("sc_xprt_buf", bytes, 240));
    let send = file.pointer(send);
    file.function(server, &[svcxprt, send]);
    let xdr = file.pointer(xdr);
    file.function("svc_rdma_map_reply_msg", &[svcxprt, send, bytes, xdr]);
    let cqe = structure!("ib_cqe", 8, ("done", bytes, 0));
    structure!("svc_rdma_recv_ctxt", 128, ("rc_cqe", cqe, 48), ("rc_recv_buf", bytes, 88));
    let cqe = file.pointer(cqe);
    let wc = structure!(
        "ib_wc",
        64,
        ("wr_cqe", cqe, 0),
        ("status", number, 8),
        ("byte_len", number, 20),
        ("qp", qp, 24),
        ("ex", ex, 32),
        ("wc_flags", number, 44)
    );
    let wc = file.pointer(wc);
    file.function("svc_rdma_wc_receive", &[bytes, wc]);
    Btf::parse(&file.bytes(), None).unwrap()
}

fn text(all: &[Definition], event: &str) -> String {
    all.iter().find(|one| one.point.event(one.part) == event).unwrap().text.clone()
}

#[test]
fn definitions_follow_the_types() {
    let all = definitions(&kernel("svc_rdma_post_send", ""), usize::MAX).unwrap();
    let array = |name: &str, offset: i32, pointer: &str| format!(" {name}=+{offset}({pointer}):x64[64]");
    let sent = text(&all, "client_send0");
    let expected = "frwr_send key=$arg2:x64 length=+24(+316($arg2)):x32 qp=+16(+8(+256($arg1))):x64 \
                    number=+40(+16(+8(+256($arg1)))):x32 device=+60(+0(+16(+8(+256($arg1))))):x32 \
                    opcode=+328($arg2):x32 rkey=+336($arg2):x32 sges=+324($arg2):x32 head=+24($arg2):x64 \
                    head_length=+32($arg2):x64 tail=+40($arg2):x64 tail_length=+48($arg2):x64 \
                    sge=+0(+316($arg2)):x64[16]";
    let bytes = [
        array("b0", 0, "+24($arg2)"),
        array("b1", 512, "+24($arg2)"),
        array("h0", 0, "+32(+400($arg2))"),
        array("h1", 512, "+32(+400($arg2))"),
        array("t0", 0, "+40($arg2)"),
    ];
    assert_eq!(sent, format!("{expected}{}", bytes.concat()));
    // From the completion to the context around it: 88 - 48.
    let received = text(&all, "server_receive2");
    let expected = format!(
        "svc_rdma_wc_receive key=$arg2:x64 length=+20($arg2):x32{}",
        array("b7", 3584, "+40(+0($arg2))")
    );
    assert_eq!(received, expected);
    assert!(
        text(&all, "server_map0")
            .starts_with("svc_rdma_map_reply_msg key=$arg2:x64 head_length=+8($arg4):x64")
    );
    assert!(text(&all, "server_send0").contains(" length=+8(+32($arg2)):x32 qp=+664($arg1):x64"));
    let filters: Vec<_> = all.iter().filter_map(|one| one.filter.as_deref()).collect();
    assert_eq!(
        (all.len(), filters.len(), filters[0], filters[5]),
        (15, 10, "length > 1024", "head_length > 3584")
    );
}

/// The limits of Linux: the length of a definition, of an argument, and of an event.
#[test]
fn definitions_are_within_the_kernels_limits() {
    for one in definitions(&kernel("svc_rdma_send", ""), MOST).unwrap() {
        let arrays = one.text.matches(":x64[64]").count();
        assert!(one.text.len() < 4000 && ARRAY * arrays <= 2560, "{}", one.text);
        assert!(one.text.split(' ').all(|argument| argument.len() < 63 + 16));
    }
}

#[test]
fn smaller_messages_need_fewer_events() {
    let btf = kernel("svc_rdma_send", "");
    for (bytes, events) in [(64, 5), (1024, 5), (1025, 10), (3584, 10), (3585, 15), (262_144, 15)] {
        assert_eq!(definitions(&btf, bytes).unwrap().len(), events, "{bytes}");
    }
}

#[test]
fn unsupported_kernels_are_errors() {
    let error = |server, without| definitions(&kernel(server, without), MOST).unwrap_err().to_string();
    assert_eq!(
        error("svc_rdma_other", ""),
        "this kernel has no function svc_rdma_post_send or svc_rdma_send: it is not known how to snoop on it"
    );
    assert_eq!(
        error("svc_rdma_send", "rr_inv_rkey"),
        "in this kernel, rpcrdma_rep.rr_inv_rkey of the function rpcrdma_reply_handler was not found: it is not \
         known how to snoop on it"
    );
}
