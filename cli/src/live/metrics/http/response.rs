//! The response to a request (RFC 9110, RFC 9112).

use httparse::{EMPTY_HEADER, Error, Request, Status};
use httpdate::fmt_http_date;
use std::io::{IoSlice, Result, Write};
use std::sync::Arc;
use std::time::SystemTime;

/// Maximum number of header fields in a request.
const HEADERS: usize = 64;

/// A page.
pub(in super::super) struct Page {
    /// The media type.
    pub(in super::super) content_type: &'static str,
    pub(in super::super) body: Arc<[u8]>,
}

impl Page {
    /// A line of plain text.
    pub(in super::super) fn text(line: &str) -> Page {
        Page { content_type: "text/plain; charset=utf-8", body: format!("{line}\n").into_bytes().into() }
    }
}

/// The pages of a server.
pub(in super::super) trait Pages {
    /// Returns the page at a path, if it exists.
    fn page(&mut self, path: &str) -> Option<Page>;
}

/// A response being written.
pub(super) struct Response {
    head: Vec<u8>,
    body: Arc<[u8]>,
    written: usize,
}

impl Response {
    /// Returns the response to a request, or `None` if the request is incomplete and `is_full` is
    /// false, so that more bytes can be read.
    pub(super) fn to(request: &[u8], is_full: bool, pages: &mut impl Pages) -> Option<Response> {
        let mut headers = [EMPTY_HEADER; HEADERS];
        let mut parsed = Request::new(&mut headers);
        match parsed.parse(request) {
            Ok(Status::Complete(_)) => Some(Response::of(&parsed, pages)),
            Ok(Status::Partial) if !is_full => None,
            Ok(Status::Partial) if !request.contains(&b'\n') => Some(Response::error("414 URI Too Long")),
            Ok(Status::Partial) | Err(Error::TooManyHeaders) => {
                Some(Response::error("431 Request Header Fields Too Large"))
            }
            Err(Error::Version) => Some(Response::error("505 HTTP Version Not Supported")),
            Err(_) => Some(Response::error("400 Bad Request")),
        }
    }

    /// The response to a request that is incomplete at the connection's deadline.
    pub(super) fn timeout() -> Response {
        Response::error("408 Request Timeout")
    }

    fn of(request: &Request<'_, '_>, pages: &mut impl Pages) -> Response {
        let response = match request.method {
            // RFC 9112, section 3.2.
            _ if lacks_host(request) => Response::error("400 Bad Request"),
            Some("GET" | "HEAD") => match pages.page(path(request)) {
                Some(page) => Response::new("200 OK", page),
                None => Response::error("404 Not Found"),
            },
            _ => Response::error("405 Method Not Allowed"),
        };
        if request.method == Some("HEAD") { Response { body: Arc::default(), ..response } } else { response }
    }

    fn error(status: &str) -> Response {
        Response::new(status, Page::text(status))
    }

    fn new(status: &str, Page { content_type, body }: Page) -> Response {
        let (date, length) = (fmt_http_date(SystemTime::now()), body.len());
        let head = format!(
            "HTTP/1.1 {status}\r\n\
             Date: {date}\r\n\
             Content-Type: {content_type}\r\n\
             Content-Length: {length}\r\n\
             Allow: GET, HEAD\r\n\
             Connection: close\r\n\r\n"
        );
        Response { head: head.into_bytes(), body, written: 0 }
    }

    /// Writes once. Returns whether the response is complete.
    pub(super) fn write(&mut self, to: &mut impl Write) -> Result<bool> {
        let mut slices = [IoSlice::new(&self.head), IoSlice::new(&self.body)];
        let mut rest = &mut slices[..];
        IoSlice::advance_slices(&mut rest, self.written);
        self.written += to.write_vectored(rest)?;
        Ok(self.written == self.head.len() + self.body.len())
    }
}

/// The path of a request, without the query.
fn path<'a>(request: &Request<'_, 'a>) -> &'a str {
    request.path.unwrap_or_default().split('?').next().unwrap_or_default()
}

fn lacks_host(request: &Request<'_, '_>) -> bool {
    request.version == Some(1)
        && !request.headers.iter().any(|header| header.name.eq_ignore_ascii_case("host"))
}
