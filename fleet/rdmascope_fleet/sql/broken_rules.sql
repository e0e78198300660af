-- Broken rules by host: conclusive findings, by the host that broke the rule. The host is empty if
-- both ends did, or if it is unknown which one.
SELECT level, rule, host, count(*) AS findings, count(DISTINCT site || '/' || capture) AS captures, min(day) AS first_day, max(day) AS last_day
FROM (
    SELECT findings.level, findings.rule, findings.site, findings.capture, findings.day,
           CASE findings.by WHEN 'requester' THEN connections.requester_address
                            WHEN 'responder' THEN connections.responder_address END AS host
    FROM findings
    LEFT JOIN connections
        ON findings.site = connections.site AND findings.capture = connections.capture
        AND findings.connection = connections.connection
    WHERE findings.verdict = 'stands'
) AS broken
GROUP BY level, rule, host
ORDER BY level, findings DESC, rule, host NULLS LAST
