import Addressing
import Bytes
import Collections
import HTTPServer
import HTTPServices
import Messaging
import Persistence
import ProxyCore
import ProxyRuntime
import Registration
import Timekeeping

/// The operators' HTTP routes for MESSAGE requests that wait for phones. An HTTP answer never contains the text of a
/// message.
extension ControlRoutes {
    func registerMessages(in router: inout ServiceRouter) {
        router.add("GET", "/v1/messages", .messages) { call throws(ServiceProblem) in
            call.answer(try await messages(call))
        }
        router.add("DELETE", "/v1/messages/{}", .removeMessage) { call throws(ServiceProblem) in
            try await removeMessage(call)
        }
    }

    private func messages(_ call: ServiceCall) async throws(ServiceProblem) -> MessagePage {
        let (after, limit) = (try call.cursor(), try call.pageLimit())
        var user: AddressOfRecord?
        if let name = call.request.query("user") {
            guard let aor = Self.aor(name) else { throw ServiceProblem(404, "expected user@domain") }
            user = aor
        }
        let domains = call.domains
        // A page has only messages of the caller's domains, so that its length reveals nothing about other messages.
        let page = await door.ask(.everything) { [user] engine, _ in
            user.map { Page(engine.waitingMessages(of: $0), next: nil) }
                ?? engine.waitingMessages(after: after, limit: limit) { domains.permits($0.host) }
        }
        let messages = page.elements.filter { domains.permits($0.aor.host) }
        return MessagePage(messages: messages.map { MessageReport($0) }, next: page.next?.number)
    }

    private func removeMessage(_ call: ServiceCall) async throws(ServiceProblem) {
        call.changes("message \(call.parameter())")
        guard let id = UInt64(call.parameter()),
            let message = await door.ask(.everything, { engine, _ in engine.waitingMessage(id) }),
            call.domains.permits(message.aor.host)
        else { throw ServiceProblem(404, "no such message") }
        call.changes("message \(id) of \(message.aor)")
        try await write([.forgetMessages([id])])
        await door.ask(.everything) { engine, now in engine.messagesForgotten([id], now: now) }
        call.answerDone()
    }
}

extension MessageReport {
    init(_ message: StoredMessage) {
        self.init(
            id: message.id, aor: message.aor.description, sender: message.sender.string,
            receivedAt: message.receivedAt.seconds, expiresAt: message.expiresAt.seconds,
            bytes: message.request.count, devices: message.devices.map(\.name))
    }
}
