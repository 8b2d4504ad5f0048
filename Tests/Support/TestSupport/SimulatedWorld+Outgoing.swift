import Addressing
import Bytes
import ProxyCore
package import SIPGrammar
import SIPMessage
import Timekeeping

/// One call that a phone makes through the PBX, as seen by the phone and by the PBX.
struct SimulatedOutgoing {
    let callID: String
    let phone: Int
    /// The phone's flow at the time of the call, and the number of REGISTERs sent until then.
    let flow: Flow
    let registrations: Int
    let invite: SIPRequest
    // The events that the phone saw.
    var sawProvisional = false
    var cancelAnswered = false
    /// The final responses that the phone got, each once.
    var finals: [Status] = []
    // The events that the PBX saw.
    var branches = Set<ByteString>()
    var answer: Status?
    var isAcknowledged = false
    /// Whether the end of the call was checked, because the phone had not moved.
    var wasHeard = false
}

/// Simulates the calls that phones make.
extension SimulatedWorld {
    func phoneCalls(_ number: Int) {
        let phone = Int.random(in: 0..<phones.count, using: &random)
        let caller = phones[phone]
        guard caller.isRegistered, caller.transport == .udp || caller.connection != nil else { return }
        let text = SIPText.invite(
            to: "outside", from: caller.user, at: caller.endpoint, callID: "out\(number)", branch: "out\(number)")
        let via = "SIP/2.0/\(caller.transport.viaName)"
        let bytes = Array(String(decoding: text, as: UTF8.self).replacing("SIP/2.0/UDP", with: via).utf8)
        guard case .request(let invite) = reader.read(bytes) else { return }
        outgoing.append(
            SimulatedOutgoing(
                callID: "out\(number)", phone: phone, flow: flow(of: phone), registrations: caller.registrations,
                invite: invite))
        let index = outgoing.count - 1
        sendOutgoing(index, attempt: 0)
        let patience = random.chance(0.4) ? random.milliseconds(500...12_000) : .seconds(60)
        at(patience) { $0.phoneGivesUp(index, attempt: 0) }
        // If the network prevents the caller from cancelling, the daemon ends the call within the waiting time of the
        // check.
        at(plan.partitions > 0 ? .seconds(260) : .seconds(150)) { $0.checkEnd(index) }
    }

    /// Whether the phone still has the flow of the call, and has not registered since.
    private func isThere(_ call: SimulatedOutgoing) -> Bool {
        phones[call.phone].registrations == call.registrations && flow(of: call.phone) == call.flow
    }

    private func sendOutgoing(_ index: Int, attempt: Int) {
        let call = outgoing[index]
        guard attempt < 7, !call.sawProvisional, call.finals.isEmpty, isThere(call) else { return }
        deliver(call.invite.frame.bytes.array, on: call.flow)
        guard call.flow.transport == .udp else { return }
        at(.milliseconds(500 << attempt)) { $0.sendOutgoing(index, attempt: attempt + 1) }
    }

    private func phoneGivesUp(_ index: Int, attempt: Int) {
        let call = outgoing[index]
        guard attempt < 8, call.finals.isEmpty, !call.cancelAnswered, isThere(call) else { return }
        // A CANCEL may be sent only after a provisional response (RFC 3261 section 9.1).
        guard call.sawProvisional else { return at(.seconds(5)) { $0.phoneGivesUp(index, attempt: attempt + 1) } }
        deliver(SIPText.hopRequest("CANCEL", for: call.invite), on: call.flow)
        guard call.flow.transport == .udp else { return }
        at(.milliseconds(500 << min(attempt, 3))) { $0.phoneGivesUp(index, attempt: attempt + 1) }
    }

    /// Handles a response to a phone's request other than REGISTER.
    func phoneHears(_ response: SIPResponse, _ phone: Int) {
        guard let index = outgoing.firstIndex(where: { $0.callID == response.callID.string }) else { return }
        let call = outgoing[index]
        if call.phone != phone { violate("\(phones[phone].name) hears of \(call.callID), which is another's") }
        switch response.cseq.method {
        case .cancel: outgoing[index].cancelAnswered = true
        case .invite where response.status.isProvisional: outgoing[index].sawProvisional = true
        case .invite:
            if !call.finals.contains(response.status) { outgoing[index].finals.append(response.status) }
            let ack =
                response.status.isSuccess
                ? SIPText.dialogRequest(
                    "ACK", cseq: 1, invite: call.invite, answer: response, at: phones[phone].endpoint,
                    branch: "ack\(call.callID)")
                : SIPText.hopRequest(
                    "ACK", for: call.invite, to: response.frame.firstValue(of: .to)?.string)
            deliver(ack, on: flow(of: phone))
        default: break
        }
    }

    // MARK: The PBX

    func pbxIsAsked(_ request: SIPRequest) {
        guard let index = outgoing.firstIndex(where: { $0.callID == request.callID.string }) else { return }
        switch request.method {
        case .invite: pbxIsCalled(request, index)
        case .cancel:
            pbxSays(200, to: request)
            guard outgoing[index].answer == nil else { return }
            // A CANCEL has the same Via branch as its INVITE.
            pbxDecides(.requestTerminated, request, index, attempt: 0)
        case .ack: outgoing[index].isAcknowledged = true
        default: pbxSays(200, to: request)
        }
    }

    private func pbxIsCalled(_ invite: SIPRequest, _ index: Int) {
        let isNew = outgoing[index].branches.isEmpty
        if let branch = invite.via.branch { outgoing[index].branches.insert(branch.compacted()) }
        guard isNew else {
            // For a repeated INVITE, the PBX repeats its last response.
            return pbxSays(outgoing[index].answer ?? 180, to: invite)
        }
        at(random.milliseconds(50...500)) { world in
            if world.outgoing[index].answer == nil { world.pbxSays(180, to: invite) }
        }
        let roll = Double.random(in: 0..<1, using: &random)
        guard let decision: Status = roll < 0.5 ? 200 : roll < 0.7 ? 486 : nil else { return }
        at(random.milliseconds(600...6_000)) { $0.pbxDecides(decision, invite, index, attempt: 0) }
    }

    /// Sends the PBX's final response, and repeats it until the ACK arrives.
    private func pbxDecides(_ status: Status, _ request: SIPRequest, _ index: Int, attempt: Int) {
        let call = outgoing[index]
        guard attempt < 12, call.answer ?? status == status, !call.isAcknowledged else { return }
        outgoing[index].answer = status
        pbxSays(status, to: request, method: .invite)
        at(.milliseconds(min(500 << attempt, 4_000))) {
            $0.pbxDecides(status, request, index, attempt: attempt + 1)
        }
    }

    private func pbxSays(_ status: Status, to request: SIPRequest, method: Method? = nil) {
        var text = SIPText.response(status, to: request, tag: "pbx", contact: "sip:outside@\(Self.pbx)")
        if method == .invite {
            text = Array(String(decoding: text, as: UTF8.self).replacing("1 CANCEL", with: "1 INVITE").utf8)
        }
        deliver(text, on: Flow(transport: .udp, listener: 0, connection: 0, remote: Self.pbx))
    }

    // MARK: Violations

    /// The final responses to calls of phones that had not moved before the end of the call.
    package var outgoingEnds: [Status] { outgoing.filter(\.wasHeard).flatMap(\.finals) }

    func checkOutgoing() {
        for call in outgoing {
            let label = "\(call.callID) of \(phones[call.phone].name)"
            if call.branches.count > 1 { violate("the PBX got \(label) by \(call.branches.count) branches") }
            // After an interruption of the network, a call may reach the PBX after the caller has given up, and stay
            // without an answer.
            if !call.branches.isEmpty, call.answer == nil, plan.partitions == 0 {
                violate("the PBX rings on with \(label)")
            }
            if call.finals.count > 1 { violate("\(label) ended with \(call.finals.map(\.code))") }
        }
    }

    /// Checks that the caller has got the end of the call, unless the phone has moved.
    private func checkEnd(_ index: Int) {
        let call = outgoing[index]
        guard call.sawProvisional, isThere(call) else { return }
        outgoing[index].wasHeard = true
        let label = "\(call.callID) of \(phones[call.phone].name)"
        if call.finals.isEmpty { violate("\(label) has no end at the phone") }
        if call.answer == 200, !call.isAcknowledged, !call.finals.contains(408) {
            violate("the ACK of \(label) never came")
        }
    }
}
