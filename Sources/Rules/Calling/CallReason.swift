package import Bytes
import Registration
import SIPGrammar

/// Reads and writes the Reason header field (RFC 3326), by which a CANCEL says that another phone answered the call.
package enum CallReason {
    static let completedElsewhere = ByteString("SIP;cause=200;text=\"Call completed elsewhere\"")

    /// Whether a Reason says that the call was answered elsewhere: `SIP;cause=200`, or `Q.850;cause=26` from some PBXs.
    package static func saysAnswered(_ field: ByteString) -> Bool {
        values(of: field).contains { $0 == ("sip", 200) || $0 == ("q.850", 26) }
    }

    /// Whether a Reason contains `SIP;cause=200`, which phones understand; phones do not understand `Q.850;cause=26`.
    static func saysCompletedElsewhere(_ field: ByteString) -> Bool {
        values(of: field).contains { $0 == ("sip", 200) }
    }

    /// The protocol, in lower case, and the cause of each Reason value with a cause.
    private static func values(of field: ByteString) -> [(String, Int)] {
        field.split(at: [UInt8(ascii: ",")]).compactMap { value in
            let parts = value.split(at: [UInt8(ascii: ";")])
            for part in parts.dropFirst() {
                guard let equals = part.firstIndex(of: UInt8(ascii: "=")),
                    part[0..<equals].trimmed().equalsIgnoringCase("cause"),
                    let cause = Int(part[equals + 1..<part.count].trimmed().string)
                else { continue }
                return (parts[0].trimmed().lowercased().string, cause)
            }
            return nil
        }
    }
}

extension Fork.CancelReason {
    /// The Reason header field values of a CANCEL that the daemon sends for a ``Fork/CancelReason``.
    package func fields(callerReasons: [ByteString]) -> [ByteString] {
        switch self {
        // `SIP;cause=200` is added, because phones do not understand a caller's `Q.850;cause=26`.
        case .answeredElsewhere:
            callerReasons.contains(where: CallReason.saysCompletedElsewhere)
                ? callerReasons : [CallReason.completedElsewhere] + callerReasons
        case .declinedElsewhere(let status), .endedByOperator(let status): [ByteString("SIP;cause=\(status.code)")]
        case .callerCancelled: callerReasons
        case .moved: []
        }
    }
}
