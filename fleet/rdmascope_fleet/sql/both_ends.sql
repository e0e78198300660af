-- Both ends: transactions captured at two sites, joined by connection and XID. The site with the
-- longer latency is closer to the caller. The difference is the round-trip time of the network
-- between the sites, independent of their clocks.
WITH calls AS (
    SELECT t.site, t.capture, t.number, t.client, t.server, t.protocol, t.operation, t.direction, t.xid,
           t.latency_ns, t.call_time_ns,
           concat_ws(' ', c.requester_address, coalesce(CAST(c.requester_qpn AS VARCHAR(20)), '-'),
                     coalesce(CAST(c.requester_tcp_port AS VARCHAR(20)), '-'), c.responder_address,
                     coalesce(CAST(c.responder_qpn AS VARCHAR(20)), '-'),
                     coalesce(CAST(c.responder_tcp_port AS VARCHAR(20)), '-')) AS ends
    FROM transactions AS t
    JOIN connections AS c ON t.site = c.site AND t.capture = c.capture AND t.connection = c.connection
    WHERE t.latency_ns IS NOT NULL
), pairs AS (
    SELECT a.site AS site, b.site AS other_site, a.client, a.server, a.protocol, a.operation,
           CAST(a.latency_ns AS BIGINT) AS latency_ns, CAST(b.latency_ns AS BIGINT) AS other_latency_ns,
           -- XIDs are reused over time: the call closest in time is the same one.
           row_number() OVER (PARTITION BY a.site, a.capture, a.number, b.site
                              ORDER BY abs(a.call_time_ns - b.call_time_ns), b.capture, b.number) AS nearness
    FROM calls AS a
    JOIN calls AS b
        ON a.ends = b.ends AND a.xid = b.xid AND a.direction = b.direction
        -- Clocks are assumed to agree to within a minute.
        AND abs(a.call_time_ns - b.call_time_ns) < 60000000000
    WHERE a.site < b.site
)
SELECT site, other_site, client, server, protocol, operation, count(*) AS transactions,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY latency_ns) AS median_ns,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY other_latency_ns) AS other_median_ns,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY latency_ns - other_latency_ns) AS median_difference_ns
FROM pairs
WHERE nearness = 1
GROUP BY site, other_site, client, server, protocol, operation
ORDER BY site, other_site, client NULLS LAST, server NULLS LAST, protocol NULLS LAST, operation
