import Bytes
import ProxyCore
import PushDelivery
import Timekeeping

/// The push provider.
extension SimulatedWorld {
    func pushRequested(_ request: PushRequest) {
        let engine = engine
        timeline.pushAsked(request, now: now.instant)
        tell("push \(request.id.rawValue) to \(request.token.prid): \(request.message)")
        engine.pushNoted(request.id, .queued(app: "fcm"), now: now)
        leftPushes.insert(request.id)
        engine.pushNoted(request.id, .sent, now: now)
        let fails = !isQuiet && random.chance(plan.pushFailure)
        let phone = phones.firstIndex { $0.token == request.token.prid }
        if case .missedCalls(let missed) = request.message, let phone {
            for call in missed { markReport(of: call.remoteURI.string, by: phone) { $0.reportsUnderWay.insert(phone) } }
        }
        at(random.milliseconds(30...300)) { world in
            guard world.engine === engine, !world.cancelledPushes.contains(request.id) else { return }
            world.tell("push \(request.id.rawValue) \(fails ? "fails" : "is taken")")
            if fails, let phone, case .incomingCall(let call) = request.message {
                world.phones[phone].unpushed.insert(call.callID.string)
            }
            if !fails, let phone { world.pushArrived(request.message, at: phone) }
            let outcome = fails ? PushOutcome.credentialsRefused("simulated") : .accepted(nil)
            let answer = PushStep.answered(outcome, status: fails ? 403 : 200, problem: nil)
            for step in [answer, .finished(outcome)] { world.engine.pushNoted(request.id, step, now: world.now) }
            world.engine.pushFinished(request.id, outcome: outcome, now: world.now)
            world.drain()
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
