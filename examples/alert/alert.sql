-- A reading above the limit becomes an alert; the route's destination puts it on its topic.
SELECT
  * EXCEPT (payload, celsius),
  to_json(named_struct('celsius', celsius, 'limit', :limit)) AS payload
FROM (SELECT *, try_cast(cast(payload AS string) AS double) AS celsius FROM messages)
WHERE celsius > :limit
