import Addressing
import Bytes
import SIPGrammar
import SIPMessage
import Timekeeping

/// Simulates phones: their own actions, and their reactions to messages and pushes.
extension SimulatedWorld {
    /// Starts the app of a phone, which opens a new connection or port, and registers.
    func phoneWakes(_ phone: Int) {
        let hadConnection = phones[phone].connection
        if let hadConnection {
            phoneOn[hadConnection] = nil
            let isHalfOpen = random.chance(plan.halfOpen)
            if isHalfOpen { halfOpen.insert(hadConnection) }
            connectionEnds(
                flow(of: phone), after: random.milliseconds(isHalfOpen ? 1_000...40_000 : 5...60),
                at: phones[phone].node)
        }
        phones[phone].node = nodeForPhone(phone)
        phones[phone].wake(port: UInt16.random(in: 20_000...60_000, using: &random))
        phoneAt = phoneAt.filter { $0.value != phone }
        phoneAt[phones[phone].endpoint] = phone
        if phones[phone].transport == .tcp {
            lastConnection += 1
            phones[phone].connection = lastConnection
            phoneOn[lastConnection] = phone
        }
        sendRegister(of: phone, attempt: 0)
    }

    /// Delivers a push for a call to a phone. An app that is awake sends a message on its flow, which is a sign of
    /// life. An app that was asleep registers again.
    func phoneIsCalled(_ phone: Int) {
        let isThere =
            phones[phone].isRegistered && nodes[phones[phone].node].isAlive
            && (phones[phone].transport == .udp || phones[phone].connection != nil)
        if isThere, random.chance(plan.awake) {
            deliverKeepAlive(on: flow(of: phone), at: phones[phone].node)
        } else {
            phoneWakes(phone)
        }
    }

    /// Moves a phone to another network address during a call. The app continues, or restarts without its state.
    private func phoneMoves(_ phone: Int) {
        guard !isQuiet else { return }
        if random.chance(plan.restarts) {
            phones[phone].dialogs = phones[phone].dialogs.filter { $0.value.final == 200 }
        }
        phoneWakes(phone)
    }

    func flow(of phone: Int) -> Flow {
        let phone = phones[phone]
        return Flow(
            transport: phone.transport, listener: phone.transport == .tcp ? 1 : 0, connection: phone.connection ?? 0,
            remote: phone.endpoint)
    }

    private func sendRegister(of phone: Int, attempt: Int) {
        let current = phones[phone].registrations
        // The first flow registers last: when it gets its 200, the phone's other flows have left the old address.
        for number in (0..<phones[phone].flows).reversed() {
            deliver(phones[phone].registerText(flow: number), on: flow(of: phone), at: phones[phone].node)
        }
        guard attempt < 8 else { return }
        at(.milliseconds(500 << min(attempt, 3))) { world in
            guard world.phones[phone].registrations == current, !world.phones[phone].isRegistered else { return }
            let isGone = !world.nodes[world.phones[phone].node].isAlive && attempt >= 2
            if isGone || world.phones[phone].transport == .tcp && world.phones[phone].connection == nil {
                world.phoneWakes(phone)
                return
            }
            world.sendRegister(of: phone, attempt: attempt + 1)
        }
    }

    private func phoneRefreshes(_ phone: Int) {
        guard phones[phone].isRegistered, flow(of: phone).connection != 0 || !phones[phone].transport.isReliable else {
            return
        }
        phones[phone].refreshes += 1
        deliver(phones[phone].registerText(), on: flow(of: phone), at: phones[phone].node)
    }

    /// Sends a new REGISTER after a refusal, as real phones do.
    private func registerAgain(_ phone: Int) {
        let current = phones[phone].registrations
        at(random.milliseconds(1_000...3_000)) { world in
            guard world.phones[phone].registrations == current, !world.phones[phone].isRegistered else { return }
            world.phones[phone].refreshes += 1
            world.sendRegister(of: phone, attempt: 0)
        }
    }

    func phoneReceived(_ message: ReadMessage, _ phone: Int, on flow: Flow, from node: Int) {
        guard phones[phone].isAwake, flow.transport.isReliable || phones[phone].endpoint == flow.remote else { return }
        switch message {
        case .response(let response):
            if response.cseq.method == .register, response.callID.string == phones[phone].registerCallID {
                if response.status == .serviceUnavailable { registerAgain(phone) }
                if response.status.isSuccess {
                    phones[phone].registered()
                    notePURR(in: response, of: phone)
                    if random.chance(plan.refreshes) { at(random.milliseconds(5...250)) { $0.phoneRefreshes(phone) } }
                }
            } else if response.cseq.method != .register {
                phoneHears(response, phone)
            }
        case .request(let request): phoneReceived(request, phone, from: node)
        case .unusable: break
        }
    }

    private func notePURR(in response: SIPResponse, of phone: Int) {
        let caps = response.frame.fields.filter { $0.name == .featureCaps }
        let texts = caps.map { response.frame.bytes[$0.value].string }
        let found = texts.compactMap { $0.firstMatch(of: /\+sip\.pnspurr="([^"]+)"/)?.1 }.first
        guard plan.announcesPURR, !phones[phone].isOrdinary else { return }
        guard let found else { return violate("\(phones[phone].name) was given no reference") }
        phones[phone].purr = String(found)
    }

    private func phoneReceived(_ request: SIPRequest, _ phone: Int, from node: Int) {
        let key = request.callID.string
        func answer(_ status: Status) { self.answer(phone, status, to: request, of: node) }
        switch request.method {
        case .invite:
            // A merged request and each of its retransmissions get 482.
            if phones[phone].metTwice.contains(request.via.branch) { return answer(.loopDetected) }
            if let dialog = phones[phone].dialogs[key] {
                if dialog.invite.via.branch == request.via.branch {
                    if let final = dialog.final, final.code >= 300 { answer(final) }
                    return
                }
                switch dialog.final {
                // A call that arrives on another path while the phone rings or has answered gets 482 (RFC 3261 section
                // 8.2.2.2).
                case nil, 200?:
                    phones[phone].metTwice.insert(request.via.branch)
                    return answer(.loopDetected)
                // After a cancelled call, an INVITE with a new Via branch lets the phone ring again.
                case .requestTerminated?: break
                case let final?: return answer(final)
                }
            }
            phones[phone].dialogs[key] = SimulatedDialog(invite: request, node: node)
            if random.chance(plan.moves) { at(random.milliseconds(1...4_000)) { $0.phoneMoves(phone) } }
            let roll = Double.random(in: 0..<1, using: &random)
            at(random.milliseconds(50...500)) { world in
                guard world.phones[phone].dialogs[key]?.invite.via.branch == request.via.branch else { return }
                world.answer(phone, .init(code: 180), to: request, of: node)
            }
            let decision: Status? = roll < 0.5 ? 200 : roll < 0.6 ? 486 : roll < 0.65 ? 603 : nil
            guard let decision else { return }
            at(random.milliseconds(600...6_000)) { $0.phoneDecides(phone, key, decision, request) }
        case .cancel:
            answer(.ok)
            guard let dialog = phones[phone].dialogs[key], dialog.final == nil,
                dialog.invite.via.branch == request.via.branch
            else { return }
            phones[phone].dialogs[key]?.final = .requestTerminated
            repeatFinal(phone, key, .requestTerminated, dialog.invite, attempt: 0)
        case .ack:
            // The ACK of a failure response has the Via branch of the INVITE. A merged request creates no dialog, so
            // the ACK of its 482 is ignored.
            let dialog = phones[phone].dialogs[key]
            if phones[phone].metTwice.contains(request.via.branch) { return }
            if dialog?.final == 200 || dialog?.invite.via.branch == request.via.branch {
                phones[phone].dialogs[key]?.isAcknowledged = true
            }
        case .options:
            // A phone that dozes keeps its connection, but sends nothing.
            if random.chance(plan.awake) { answer(.ok) }
        default: answer(.ok)
        }
    }

    private func answer(_ phone: Int, _ status: Status, to request: SIPRequest, of node: Int) {
        respond(
            SIPText.response(status, to: request, tag: phones[phone].name, contact: phones[phone].contact()), phone,
            to: node)
    }

    /// Sends a response to the daemon whose request the phone answers. A phone that has moved to another daemon has no
    /// connection for the response.
    private func respond(_ bytes: [UInt8], _ phone: Int, to node: Int) {
        guard node == phones[phone].node || !phones[phone].transport.isReliable else { return }
        deliver(bytes, on: flow(of: phone), at: node)
    }

    private func phoneDecides(_ phone: Int, _ key: String, _ status: Status, _ invite: SIPRequest) {
        guard let dialog = phones[phone].dialogs[key], dialog.final == nil,
            dialog.invite.via.branch == invite.via.branch
        else { return }
        phones[phone].dialogs[key]?.final = status
        repeatFinal(phone, key, status, invite, attempt: 0)
    }

    /// Repeats the final response to an INVITE until the ACK arrives (timer G; for 2xx RFC 3261 section 13.3.1.4).
    private func repeatFinal(_ phone: Int, _ key: String, _ status: Status, _ invite: SIPRequest, attempt: Int) {
        guard attempt < 10, let dialog = phones[phone].dialogs[key], !dialog.isAcknowledged,
            dialog.invite.via.branch == invite.via.branch
        else { return }
        if status == .ok, dialog.node != phones[phone].node { noteStrayAnswer(key) }
        respond(
            SIPText.response(
                status, to: invite, tag: phones[phone].name, contact: "sip:\(phones[phone].name)@10.9.9.9"), phone,
            to: dialog.node)
        at(.milliseconds(min(500 << attempt, 4_000))) {
            $0.repeatFinal(phone, key, status, invite, attempt: attempt + 1)
        }
    }
}
