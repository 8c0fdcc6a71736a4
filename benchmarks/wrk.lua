-- Sends the requests of a file one after another, again and again, and reports as one JSON line.
-- A line is METHOD, PATH and BODY, separated by tabs. The mark in a body becomes the number of the
-- request, always with nine digits, so that what was stored tells which requests were served.

local MARK = "#########"
local FIRST = 100000000

local heads, tails, sent = {}, {}, 0

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
    local text = wrk.format(method, path, headers, body)
    local at = text:find(MARK, 1, true)
    heads[#heads + 1] = at and text:sub(1, at - 1) or text
    tails[#tails + 1] = at and text:sub(at + #MARK) or false
  end
end

function request()
  local index = sent % #heads + 1
  local number = FIRST + sent
  sent = sent + 1
  if tails[index] then
    return heads[index] .. number .. tails[index]
  end
  return heads[index]
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
