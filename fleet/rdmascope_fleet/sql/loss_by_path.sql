-- Loss by path: retransmitted, refused and damaged packets between two hosts, by site. If one site
-- shows more of them than another, packets are lost between the two sites.
SELECT requester_address, responder_address, site AS seen_at, count(*) AS connections,
       sum(requester_packets + responder_packets) AS packets,
       sum(requester_repeated_packets) AS requester_repeated, sum(responder_repeated_packets) AS responder_repeated,
       sum(requester_sequence_naks + responder_sequence_naks) AS sequence_naks,
       sum(requester_rnr_naks + responder_rnr_naks) AS rnr_naks,
       sum(requester_bad_icrc + responder_bad_icrc) AS bad_icrc,
       sum(requester_congestion_marks + responder_congestion_marks) AS congestion_marks,
       round(1000000.0 * sum(requester_repeated_packets + responder_repeated_packets)
             / nullif(sum(requester_packets + responder_packets), 0), 1) AS repeated_per_million
FROM connections
GROUP BY requester_address, responder_address, site
ORDER BY repeated_per_million DESC NULLS LAST, requester_address NULLS LAST, responder_address NULLS LAST, seen_at
