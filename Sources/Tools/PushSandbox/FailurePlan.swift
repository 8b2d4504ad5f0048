import JSON

/// A failure that the push sandbox returns for pushes to one token.
struct FailurePlan {
    /// The HTTP status of the answer. If the status is 200 and the plan has no reason, the sandbox checks the push like
    /// a push without a failure plan.
    var status: Int?
    /// The provider's reason; `nil` for the usual reason of the status.
    var reason: String?
    /// The timestamp in APNs' 410, in milliseconds.
    var timestamp: Int64?
    /// The number of pushes to which the failure applies; `nil` for all.
    var times: Int64?
    var delay: Duration = .zero
    var fault: SandboxAnswer.Fault?
    /// The value in seconds of Retry-After in the answer.
    var retryAfter: Int64?
    /// The new token that FCM's legacy interface returns for the push's token.
    var registrationID: String?

    init(status: Int, reason: String? = nil) {
        self.status = status
        self.reason = reason
    }

    /// Reads a failure plan from the body of a `PUT`; an error names a member that is unknown or out of range.
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

    /// Whether the failure plan refuses even a correct push.
    var isRefusal: Bool { status.map { $0 != 200 || reason != nil } ?? (reason != nil) }
}
