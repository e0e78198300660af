-- Kernels compared: latencies and failures by the operating system of the capturing host. Only pcapng
-- files contain it.
SELECT operating_system, protocol, operation, count(DISTINCT t.site) AS sites, count(*) AS transactions,
       count(*) FILTER (WHERE failed) AS failed,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY latency_ns) AS median_ns,
       percentile_disc(0.99) WITHIN GROUP (ORDER BY latency_ns) AS p99_ns
FROM transactions AS t
JOIN captures AS c ON t.site = c.site AND t.capture = c.capture
WHERE protocol IS NOT NULL
GROUP BY operating_system, protocol, operation
ORDER BY protocol, operation, operating_system NULLS LAST
