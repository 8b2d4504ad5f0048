import Addressing
import Bytes
import SIPGrammar
import SIPMessage
import Timekeeping

/// Simulates the PBX, which sends all calls to phones.
extension SimulatedWorld {
    /// The maximum time for which a call is held: the ring timeout of 30 s, and time for repetitions of the INVITE.
    /// Calls may be held longer while the network is interrupted.
    private var longestHold: Duration { plan.partitions > 0 ? .seconds(80) : .seconds(45) }

    func callStarts(_ number: Int) {
        let user = "u\(Int.random(in: 0..<plan.users, using: &random))"
        calls.append(
            SimulatedCall(
                caller: "c\(number)", user: user, callID: "call\(number)", startedAt: now.instant,
                target: phoneToCall(of: user), node: livingNode()))
        let index = calls.count - 1
        if plan.registersAtPBX {
            // If the user has no contact at the PBX, voicemail answers the call.
            guard let contact = registrations.contact(of: user, now: now.instant) else {
                calls.removeLast()
                registrations.voicemails += 1
                return
            }
            calls[index].contact = contact
        }
        // The phones that get a push are known only when the INVITE arrives at the daemon.
        sendInvite(index, attempt: 0)
        let patience = random.chance(0.4) ? random.milliseconds(500...12_000) : longestHold + .seconds(15)
        at(patience) { $0.callerGivesUp(index) }
    }

    /// Chooses a phone whose Contact the caller knows from an earlier call.
    private func phoneToCall(of user: String) -> (phone: Int, uri: String)? {
        guard plan.announcesPURR, random.chance(plan.callsByPURR) else { return nil }
        return phones.first { $0.user == user && !$0.purr.isEmpty }.map { ($0.number, $0.contact()) }
    }

    private func sendInvite(_ index: Int, attempt: Int) {
        guard attempt < 7, !calls[index].sawProvisional, calls[index].finals.isEmpty else { return }
        let call = calls[index]
        var bytes = SIPText.invite(
            to: call.user, from: call.caller, at: Self.pbx, callID: call.callID, branch: "pbx\(call.caller)")
        if let uri = call.target?.uri ?? call.contact {
            bytes = Array(String(decoding: bytes, as: UTF8.self).replacing(/^INVITE [^ ]+/, with: "INVITE \(uri)").utf8)
        }
        if calls[index].invite == nil, case .request(let request) = reader.read(bytes) { calls[index].invite = request }
        deliver(bytes, on: pbxFlow, at: call.node)
        at(.milliseconds(500 << attempt)) { $0.sendInvite(index, attempt: attempt + 1) }
    }

    var pbxFlow: Flow { Flow(transport: .udp, listener: 0, connection: 0, remote: Self.pbx) }

    private func callerGivesUp(_ index: Int) {
        guard calls[index].finals.isEmpty, calls[index].sawProvisional, let invite = calls[index].invite else { return }
        calls[index].gaveUp = true
        let call = calls[index]
        if now.instant - call.startedAt > longestHold, !call.wasLost, cluster == nil || !call.sawCrash,
            !phones.contains(where: { $0.invited[call.callID] != nil })
        {
            violate("\(call.callID) is held although its time is over")
        }
        calls[index].wasAnsweredElsewhere = random.chance(plan.answeredElsewhere)
        sendCancel(index, invite, attempt: 0)
    }

    private func sendCancel(_ index: Int, _ invite: SIPRequest, attempt: Int) {
        guard attempt < 8, !calls[index].cancelAnswered else { return }
        let reason = calls[index].wasAnsweredElsewhere ? ["Reason: Q.850;cause=16, SIP ;cause=200;text=\"a, b\""] : []
        deliver(SIPText.hopRequest("CANCEL", for: invite, extra: reason), on: pbxFlow, at: calls[index].node)
        at(.milliseconds(500 << min(attempt, 3))) { $0.sendCancel(index, invite, attempt: attempt + 1) }
    }

    func pbxReceived(_ message: ReadMessage) {
        guard case .response(let response) = message,
            let index = calls.firstIndex(where: { $0.callID == response.callID.string }),
            let invite = calls[index].invite
        else {
            guard case .request(let request) = message else { return }
            if request.method == .register || request.method == .options {
                registrarIsAsked(request)
            } else if request.callID.string.hasPrefix("out") {
                pbxIsAsked(request)
            } else if request.method == .bye {
                deliver(SIPText.response(200, to: request, tag: "pbx"), on: pbxFlow)
            }
            return
        }
        if response.cseq.method == .cancel {
            calls[index].cancelAnswered = true
            return
        }
        guard response.cseq.method == .invite else { return }
        if response.status.isProvisional {
            calls[index].sawProvisional = true
            return
        }
        let isFirst = calls[index].finals.isEmpty
        if !calls[index].finals.contains(response.status) { calls[index].finals.append(response.status) }
        if response.status.isSuccess {
            let ack = SIPText.dialogRequest(
                "ACK", cseq: 1, invite: invite, answer: response, at: Self.pbx,
                branch: "ack\(calls[index].caller)\(response.to.tag?.string ?? "")")
            deliver(ack, on: pbxFlow, at: nodeInDialog(of: calls[index]))
            if isFirst {
                at(random.milliseconds(1_000...60_000)) { world in
                    let bye = SIPText.dialogRequest(
                        "BYE", cseq: 2, invite: invite, answer: response, at: Self.pbx,
                        branch: "bye\(world.calls[index].caller)")
                    world.deliver(bye, on: world.pbxFlow, at: world.nodeInDialog(of: world.calls[index]))
                }
            }
        } else {
            deliver(
                SIPText.hopRequest("ACK", for: invite, to: response.frame.firstValue(of: .to)?.string), on: pbxFlow,
                at: calls[index].node)
        }
    }
}
