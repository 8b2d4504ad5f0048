import Crypto
import JSON
import Timekeeping

/// Imitates an application server that gets webhooks, and an operator's own push server. The path `/hook/NAME` accepts
/// any HTTP method.
extension ProviderSemantics {
    private static let signatureHeader = "sippushd-signature"

    func receive(_ request: SandboxRequest, name: String) -> SandboxAnswer {
        let json = JSONValue.object(in: request.body)
        let token = json?["token"]?.string ?? name
        var effects = Effects()
        var answer = SandboxAnswer(status: 200, json: .object([]))
        var reason: String?
        if case .refused(let refusal) = judge([name, token], receiverRefusal(request), &effects) {
            answer.status = refusal.status
            if !refusal.isSuccess {
                let word = refusal.reason.isEmpty ? "HTTP \(refusal.status)" : refusal.reason
                answer = SandboxAnswer(status: refusal.status, json: .members([("reason", .string(word))]))
                reason = word
            } else if refusal.status == 204 {
                answer = SandboxAnswer(status: 204)
            }
        }
        // An answer to a HEAD request has no body (RFC 9110 section 9.3.2).
        if request.method == "HEAD" { answer.body = [] }
        answer = effects.applied(to: answer)
        record(
            request, service: "http", interface: "hook", token: token,
            type: json?["type"]?.string ?? json?["event"]?.string ?? json?["data"]?["type"]?.string,
            status: answer.status, reason: reason,
            headers: ["content-type", "user-agent", "x-", "sippushd-", "idempotency-key"],
            line: "\(request.method) \(request.target)")
        return answer
    }

    private func receiverRefusal(_ request: SandboxRequest) -> Refusal? {
        guard !request.isBodyCut else { return Refusal(status: 413, reason: "PayloadTooLarge") }
        guard !webhookSecrets.isEmpty else { return nil }
        guard let text = request.headers[Self.signatureHeader] else {
            return Refusal(status: 401, reason: "MissingSignature")
        }
        guard !request.repeatedHeaders.contains(Self.signatureHeader),
            let signature = RequestSignature(Array(text.utf8)),
            (try? signature.isValid(
                for: request.body, secrets: webhookSecrets, now: UnixTime(milliseconds: clock()))) == true
        else { return Refusal(status: 401, reason: "BadSignature") }
        return nil
    }
}
