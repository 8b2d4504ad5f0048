import JSON

/// A plan by which the sandbox lets pushes to a token fail.
struct FailurePlan {
    /// The status of the answer. With 200 and no reason, the sandbox judges the push as usual.
    var status: Int?
    /// The provider's reason. Without it, the usual reason for the status is sent.
    var reason: String?
    /// The timestamp in the answer 410 of APNs, in milliseconds.
    var timestamp: Int64?
    /// How many pushes the plan applies to; all pushes if it is `nil`.
    var times: Int64?
    var delay: Duration = .zero
    var fault: SandboxAnswer.Fault?
    /// The value of Retry-After, in seconds.
    var retryAfter: Int64?
    /// A new token in the answer of FCM's legacy interface. It replaces the token of the push.
    var registrationID: String?

    init(status: Int, reason: String? = nil) {
        self.status = status
        self.reason = reason
    }

    /// Reads the plan in the body of a `PUT`. The error names the member that is unknown or out of range.
    init(json bytes: [UInt8]) throws(Fault) {
        guard let members = JSONValue.object(in: bytes)?.members else { throw Fault(member: "no object") }
        for member in members {
            let value = member.value
            switch member.key {
            case "status": status = Int(try Self.number(member, 200...599))
            case "timestamp": timestamp = try Self.number(member, 0...Int64.max)
            case "times": times = try Self.number(member, 1...1_000_000)
            case "delay_ms": delay = .milliseconds(try Self.number(member, 0...600_000))
            case "retry_after": retryAfter = try Self.number(member, 0...86_400)
            case "reason": reason = try Self.text(member, 100)
            case "registration_id": registrationID = try Self.text(member, 4096)
            case "action":
                guard let fault = value.string.flatMap(SandboxAnswer.Fault.init) else {
                    throw Fault(member: member.key)
                }
                self.fault = fault
            default: throw Fault(member: member.key)
            }
        }
    }

    struct Fault: Error {
        let member: String
    }

    private static func number(_ member: JSONValue.Member, _ range: ClosedRange<Int64>) throws(Fault) -> Int64 {
        guard let number = member.value.integer, range.contains(number) else { throw Fault(member: member.key) }
        return number
    }

    private static func text(_ member: JSONValue.Member, _ limit: Int) throws(Fault) -> String? {
        guard let text = member.value.string, text.utf8.count <= limit else { throw Fault(member: member.key) }
        return text.isEmpty ? nil : text
    }

    /// Whether the sandbox refuses the push without judging it.
    var isRefusal: Bool { status.map { $0 != 200 || reason != nil } ?? (reason != nil) }
}
