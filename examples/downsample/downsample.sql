-- One message a minute for each topic: the minute by the clock of the device, and what was measured in it.
SELECT
  concat('means/', topic) AS topic,
  to_json(named_struct('from', window.start, 'mean', avg(value), 'least', min(value), 'most', max(value), 'count', count(value))) AS payload
FROM (
  SELECT topic, reading.at, reading.value
  FROM (SELECT *, from_json(cast(payload AS string), 'at timestamp, value double') AS reading FROM messages)
  -- A device whose clock is ahead would close the minute of all others.
  WHERE reading.value IS NOT NULL AND reading.at < received_at + INTERVAL 1 MINUTE
) WATERMARK at DELAY OF INTERVAL 10 SECONDS
GROUP BY topic, window(at, '1 minute')
