import Bytes
import JSON
import Timekeeping

/// Builds the list of calls in a push about missed calls (R26).
enum CallList {
    /// The maximum length of a caller in bytes, which is much longer than real telephone numbers. A caller is limited
    /// to 1024 bytes, so that the list has room for at least one call.
    private static let callerLimit = 1024

    /// The newest calls that fit into `limit` bytes, as a JSON array. The oldest call in the array is first and has the
    /// number 0 (A25).
    static func json(_ calls: [MissedCall], atMost limit: Int) -> [UInt8] {
        // The variable `text` has the JSON of all calls without their numbers, oldest first. The variable `ends` has
        // the index at which the JSON of each call ends.
        var text: [UInt8] = []
        var ends: [Int] = []
        for call in calls {
            text.append(",\"remote_uri\":")
            text.append(jsonString: call.remoteURI, atMost: callerLimit)
            text.append(",\"date\":")
            text.append(decimal: call.date.seconds)
            text.append("}")
            ends.append(text.count)
        }
        let first = firstThatFits(ends, limit)
        var array: [UInt8] = []
        array.reserveCapacity(max(limit, 2))
        array.append("[")
        for index in first..<ends.count {
            if index > first { array.append(",") }
            array.append("{\"id\":")
            array.append(decimal: index - first)
            array.append(contentsOf: text[(index == 0 ? 0 : ends[index - 1])..<ends[index]])
        }
        array.append("]")
        return array
    }

    /// The missed calls' callers as one text for people; the newest caller comes first, because a text that is too long
    /// is cut off at its end.
    static func callers(_ calls: [MissedCall], atMost limit: Int) -> ByteString {
        var names: [UInt8] = []
        for call in calls.reversed() where names.count < limit {
            if !names.isEmpty { names.append(", ") }
            names.append(call.remoteURI)
        }
        return ByteString(names)
    }

    private static func firstThatFits(_ ends: [Int], _ limit: Int) -> Int {
        var size = 2
        var first = ends.count
        while first > 0 {
            let count = ends.count - first
            let text = ends[first - 1] - (first > 1 ? ends[first - 2] : 0)
            size += text + 6 + String(count).utf8.count + (count > 0 ? 1 : 0)
            guard size <= limit else { break }
            first -= 1
        }
        return first
    }
}
