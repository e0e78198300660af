-- The slowest servers of each operation and hour: the ten with the longest 99th percentile of
-- latency. Latency is measured at the capture point, so captures on the server's host exclude the
-- network.
SELECT hour, protocol, operation, place, server, site AS seen_at, transactions, failed, median_ns, p99_ns, longest_ns
FROM (
    SELECT *, row_number() OVER (PARTITION BY hour, protocol, operation ORDER BY p99_ns DESC, server NULLS LAST, site) AS place
    FROM (
        SELECT date_trunc('hour', call_time) AS hour, protocol, operation, site, server,
               count(*) AS transactions, count(*) FILTER (WHERE failed) AS failed,
               percentile_disc(0.5) WITHIN GROUP (ORDER BY latency_ns) AS median_ns,
               percentile_disc(0.99) WITHIN GROUP (ORDER BY latency_ns) AS p99_ns,
               max(latency_ns) AS longest_ns
        FROM transactions
        WHERE latency_ns IS NOT NULL AND protocol IS NOT NULL
        GROUP BY date_trunc('hour', call_time), protocol, operation, site, server
    ) AS figures
) AS ranked
WHERE place <= 10
ORDER BY hour, protocol, operation, place
