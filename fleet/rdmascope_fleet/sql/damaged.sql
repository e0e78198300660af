-- Captures that could not be read, or not to their ends, or that lack packets.
SELECT day, site, capture, size, packets + iwarp_segments AS packets, dropped, cut_short, error
FROM captures
WHERE error IS NOT NULL OR cut_short > 0 OR dropped > 0
ORDER BY day NULLS FIRST, site, capture
