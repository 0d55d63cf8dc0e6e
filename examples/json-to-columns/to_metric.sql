-- JSON to columns, columns to other units, and JSON again. What is no such JSON goes on as it came.
SELECT
  * EXCEPT (payload, reading),
  CASE
    WHEN reading.tempF IS NULL THEN cast(payload AS string)
    ELSE to_json(named_struct(
      'station', reading.station,
      'celsius', round((reading.tempF - 32) * 5 / 9, 2),
      'bar', round(reading.pressure.psi * 0.0689475729, 3),
      'metresPerSecond', round(reading.windMph * 0.44704, 2)))
  END AS payload
FROM (
  SELECT *, from_json(cast(payload AS string), 'station string, tempF double, pressure struct<psi double>, windMph double') AS reading
  FROM messages
)
