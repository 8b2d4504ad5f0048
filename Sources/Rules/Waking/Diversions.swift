package import Bytes
import ProxyPolicy
package import Registration
package import SIPGrammar

/// The Diversion header fields of an INVITE (RFC 5806): the users who have diverted the call, latest user first.
package struct Diversions {
    private var entries: [(aor: AddressOfRecord, reason: ByteString)] = []
    /// The number of diversions of the call according to its Diversion fields.
    package private(set) var count = 0

    /// The maximum number of diversions; a call with more diversions is not forwarded.
    package static let most = 5
    /// The reason that this daemon writes into the Diversion field of a forwarded call.
    package static let reason = ByteString("unavailable")

    package init(_ frame: MessageFrame) {
        guard frame.contains(.diversion) else { return }
        for row in frame.values(of: .diversion) {
            for value in Self.values(in: row) {
                count += 1
                guard entries.count < 2 * Self.most, let address = NameAddress(value) else { continue }
                // One Diversion field can stand for several diversions; its `counter` is their number (RFC 5806 section
                // 4.2).
                if let further = address.parameters.value(of: "counter")?.decimal(as: UInt8.self), further > 1 {
                    count += Int(further) - 1
                }
                guard let aor = AddressOfRecord(address.uri) else { continue }
                entries.append((aor, address.parameters.value(of: "reason") ?? .empty))
            }
        }
    }

    /// Whether the user has already diverted the call.
    package func names(_ aor: AddressOfRecord) -> Bool { entries.contains { $0.aor == aor } }

    /// Whether this daemon has already forwarded the call for the user.
    ///
    /// The daemon recognises its own Diversion field by the reason, which is the same in all its Diversion fields.
    package func comesBack(to aor: AddressOfRecord) -> Bool {
        entries.contains { $0.aor == aor && $0.reason.equalsIgnoringCase(Self.reason) }
    }

    /// The Diversion field of a call that this daemon forwards for the user.
    package static func field(for aor: AddressOfRecord) -> AddedField {
        var value: [UInt8] = Array("<sip:".utf8)
        value.append(escapingUser: aor.user)
        value += Array("@\(aor.host)>;reason=\(reason);counter=1".utf8)
        return AddedField("Diversion", ByteString(value))
    }

    /// The comma-separated values of a header field; commas inside quotes or brackets do not separate.
    private static func values(in row: ByteString) -> [ByteString] {
        var values: [ByteString] = []
        var (start, index) = (0, 0)
        var (isQuoted, isBracketed) = (false, false)
        while index < row.count {
            switch row[index] {
            case UInt8(ascii: "\\") where isQuoted: index += 1
            case UInt8(ascii: "\"") where !isBracketed: isQuoted.toggle()
            case UInt8(ascii: "<") where !isQuoted: isBracketed = true
            case UInt8(ascii: ">") where !isQuoted: isBracketed = false
            case UInt8(ascii: ",") where !isQuoted && !isBracketed:
                values.append(row[start..<index].trimmed())
                start = index + 1
            default: break
            }
            index += 1
        }
        values.append(row[min(start, row.count)..<row.count].trimmed())
        return values.filter { !$0.isEmpty }
    }
}
