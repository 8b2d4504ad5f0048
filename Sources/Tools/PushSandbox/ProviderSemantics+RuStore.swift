import JSON

/// Imitates the answers of RuStore's push service. RuStore has the same path as FCM's HTTP v1 interface, so the service
/// token decides which of the two the sandbox imitates.
extension ProviderSemantics {
    /// The beginning of each service token that the sandbox accepts.
    private static let tokenPrefix = "rustore-"
    /// The push token to which the daemon sends trial pushes to test its service token. No device has this push token.
    private static let nobody = "sippushd-trial"
    private static let androidMembers: Set<String> = ["ttl", "notification"]
    private static let messageMembers: Set<String> = ["token", "data", "notification", "android"]

    static func isForRuStore(_ request: SandboxRequest) -> Bool {
        request.headers["authorization"]?.hasPrefix("Bearer " + tokenPrefix) == true
    }

    func ruStore(_ request: SandboxRequest, project: String) -> SandboxAnswer {
        let message = JSONValue.object(in: request.body)?["message"]
        let token = message?["token"]?.string ?? ""
        var effects = Effects()
        var answer = SandboxAnswer(status: 200, json: .object([]))
        var reason: String?
        if case .refused(let refusal) = judge(token, refusal(of: request, message, project), &effects) {
            // A failure plan has Apple's status 410 for a dead token, and RuStore answers 404 for a dead token.
            let status = refusal.status == 410 ? 404 : refusal.status
            let word =
                refusal.reason.isEmpty || refusal.status == 410 ? Self.usualWord(for: status) : refusal.reason
            let error = JSONValue.members([
                ("code", .number(Int64(status))),
                ("message", .string(refusal.message.isEmpty ? word : refusal.message)), ("status", .string(word)),
            ])
            // Clients of RuStore have seen errors in two shapes. The sandbox sends an error of the second shape if the
            // name of the project begins with `flat`.
            answer = SandboxAnswer(
                status: status, json: project.hasPrefix("flat") ? error : .members([("error", error)]))
            reason = word
        }
        answer = effects.applied(to: answer)
        record(
            request, service: "rustore", interface: "v1", token: token, type: message?["data"]?["type"]?.string,
            status: answer.status, reason: reason, headers: [], isTrial: token == Self.nobody)
        return answer
    }

    private func refusal(of request: SandboxRequest, _ message: JSONValue?, _ project: String) -> Refusal? {
        guard request.method == "POST" else { return Refusal(status: 405, reason: "INVALID_ARGUMENT") }
        if request.headers["authorization"]?.hasSuffix("-wrong") == true {
            return Refusal(status: 403, reason: "PERMISSION_DENIED", message: "the service token is wrong")
        }
        guard let message, !request.isBodyCut else {
            return Refusal(status: 400, reason: "INVALID_ARGUMENT", message: "message: an object is expected")
        }
        if let complaint = Self.complaint(about: message) {
            return Refusal(status: 400, reason: "INVALID_ARGUMENT", message: complaint)
        }
        return message["token"]?.string == Self.nobody ? Refusal(status: 404, reason: "NOT_FOUND") : nil
    }

    private static func complaint(about message: JSONValue) -> String? {
        guard let members = message.members else { return "message: an object is expected" }
        if let unknown = members.first(where: { !messageMembers.contains($0.key) }) {
            return "message.\(unknown.key) is unknown"
        }
        guard message["token"]?.string?.isEmpty == false else { return "message.token is missing" }
        if let complaint = dataComplaint(message["data"], "message.data") { return complaint }
        guard let android = message["android"] else { return nil }
        guard let members = android.members else { return "message.android: an object is expected" }
        if let unknown = members.first(where: { !androidMembers.contains($0.key) }) {
            return "message.android.\(unknown.key) is unknown"
        }
        return android["ttl"].map(isDuration) == false ? "message.android.ttl is not a duration" : nil
    }

    private static func usualWord(for status: Int) -> String {
        switch status {
        case 400: "INVALID_ARGUMENT"
        case 401, 403: "PERMISSION_DENIED"
        case 404: "NOT_FOUND"
        case 429: "TOO_MANY_REQUESTS"
        default: "INTERNAL"
        }
    }
}
