-- Sends the requests of a file one after another, again and again, and reports as one JSON line.
-- A line is METHOD, PATH and BODY, separated by tabs.

local requests, sent = {}, 0

function init(args)
  local file, token = args[1], args[2]
  for line in io.lines(file) do
    local method, path, body = line:match("^(%S+)\t(%S+)\t(.*)$")
    local headers = { ["Authorization"] = "Bearer " .. token }
    if body == "" then
      body = nil
    else
      headers["Content-Type"] = "application/json"
    end
    requests[#requests + 1] = wrk.format(method, path, headers, body)
  end
end

function request()
  sent = sent + 1
  return requests[(sent - 1) % #requests + 1]
end

function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    'WRK {"requests": %d, "seconds": %.6f, "p50_ms": %.4f, "p99_ms": %.4f, '
      .. '"refused": %d, "broken": %d}\n',
    summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout
  ))
end
