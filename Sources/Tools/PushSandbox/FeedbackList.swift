import Bytes
import JSON

/// The list of devices that the imitated feedback service of Apple will send to its next client. Each entry of the list
/// has a device's token; the app was removed from this device.
package struct FeedbackList {
    private struct Entry {
        /// When the app was removed, in Unix seconds.
        var time: UInt32
        var token: [UInt8]

        /// The entry in Apple's format, big-endian: 4 bytes of time, 2 bytes for the token's length, and the token.
        var bytes: [UInt8] {
            [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: time >> $0) }
                + [UInt8(truncatingIfNeeded: token.count >> 8), UInt8(truncatingIfNeeded: token.count)] + token
        }
    }

    private var entries: [Entry] = []
    /// How many bytes the feedback service sends at a time; `nil` for all.
    package private(set) var slice: Int?
    /// How many bytes of an incomplete record follow the complete records.
    private var partial = 0

    private static let entryLimit = 10_000
    private static let tokenLimit = 256

    package init() {}

    /// All bytes for the next client of the feedback service.
    package var bytes: [UInt8] {
        let whole = entries.flatMap(\.bytes)
        let more = Entry(time: entries.last?.time ?? 0, token: [UInt8](repeating: 0xFF, count: 32))
        return whole + more.bytes.prefix(partial)
    }

    /// Adds the records of a JSON object `{"records":[{"token":HEX,"time":SECONDS}],"slice":BYTES,"partial":BYTES}`. An
    /// error names the member of the JSON object that is unknown or out of range.
    mutating func add(json bytes: [UInt8]) throws(FailurePlan.Fault) {
        guard let members = JSONValue.object(in: bytes)?.members else { throw FailurePlan.Fault(member: "no object") }
        for member in members {
            switch member.key {
            case "records":
                guard let records = member.value.array, entries.count + records.count <= Self.entryLimit else {
                    throw FailurePlan.Fault(member: member.key)
                }
                for record in records { entries.append(try Self.entry(record)) }
            case "slice": slice = try Self.number(member, 1...65_536)
            case "partial": partial = try Self.number(member, 0...37)
            default: throw FailurePlan.Fault(member: member.key)
            }
        }
    }

    private static func entry(_ record: JSONValue) throws(FailurePlan.Fault) -> Entry {
        guard let token = record["token"]?.string.flatMap({ Hex.decode(Array($0.lowercased().utf8)) }),
            (1...tokenLimit).contains(token.count)
        else { throw FailurePlan.Fault(member: "token") }
        guard let time = record["time"]?.integer.flatMap(UInt32.init(exactly:)) else {
            throw FailurePlan.Fault(member: "time")
        }
        return Entry(time: time, token: token)
    }

    private static func number(
        _ member: JSONValue.Member, _ range: ClosedRange<Int64>
    ) throws(FailurePlan.Fault) -> Int {
        guard let number = member.value.integer, range.contains(number) else {
            throw FailurePlan.Fault(member: member.key)
        }
        return Int(number)
    }

    /// The records that no client has got yet, as a JSON object like the body of a PUT.
    var text: JSONValue {
        let records = entries.map { entry in
            JSONValue.members([
                ("token", .string(String(decoding: Hex.encode(entry.token), as: UTF8.self))),
                ("time", .number(Int64(entry.time))),
            ])
        }
        var members: [(String, JSONValue)] = [("records", .array(records)), ("partial", .number(Int64(partial)))]
        if let slice { members.append(("slice", .number(Int64(slice)))) }
        return .members(members)
    }
}
