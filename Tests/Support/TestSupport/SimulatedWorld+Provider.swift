import Bytes
import ProxyCore
import PushDelivery
import Timekeeping

/// Simulates the push provider.
extension SimulatedWorld {
    func pushLeft(_ transmission: PushDispatcher.Transmission, from node: SimulatedNode) {
        let (engine, push) = (node.engine, transmission.push)
        node.timeline.pushAsked(push, now: now.instant)
        tell("push \(push.id.rawValue) to \(push.token.prid): \(push.message)")
        let fails = !isQuiet && random.chance(plan.pushFailure)
        let phone = phones.firstIndex { $0.token == push.token.prid }
        if case .missedCalls(let missed) = push.message, let phone {
            for call in missed {
                markReport(of: call.remoteURI.string, by: phone) { $0.reportsUnderWay.insert(phone) }
                let index = calls.firstIndex { $0.caller == call.remoteURI.string }
                if let index { noteReport(of: index, by: phone, from: node.number) }
            }
        }
        at(random.milliseconds(30...300)) { world in
            guard node.isAlive, node.engine === engine else { return }
            world.tell("push \(push.id.rawValue) \(fails ? "fails" : "is taken")")
            if fails, let phone, case .incomingCall(let call) = push.message {
                world.phones[phone].unpushed.insert(call.callID.string)
            }
            if fails, let phone, case .missedCalls(let missed) = push.message {
                for index in world.calls.indices
                where missed.contains(where: { $0.remoteURI.string == world.calls[index].caller }) {
                    world.noteFailedReport(of: index, by: phone)
                }
            }
            if !fails, let phone { world.pushArrived(push.message, at: phone) }
            let answer = ProviderAnswer(status: fails ? 403 : 200)
            engine.pushHappened(.answered(transmission, answer, after: .milliseconds(30)), now: world.now)
            world.drain(node.number)
        }
    }

    private func pushArrived(_ message: PushMessage, at phone: Int) {
        switch message {
        case .incomingCall:
            phones[phone].pushes += 1
            if random.chance(plan.wakes) { at(random.milliseconds(200...4_000)) { $0.phoneIsCalled(phone) } }
        case .missedCalls(let missed):
            for call in missed {
                markReport(of: call.remoteURI.string, by: phone) { $0.reports[phone, default: 0] += 1 }
            }
        case .silent, .notification: break
        }
    }

    private func markReport(of caller: String, by phone: Int, _ mark: (inout SimulatedCall) -> Void) {
        guard let index = calls.firstIndex(where: { $0.caller == caller }) else {
            violate("reported a call that never was: \(caller)")
            return
        }
        mark(&calls[index])
    }
}
