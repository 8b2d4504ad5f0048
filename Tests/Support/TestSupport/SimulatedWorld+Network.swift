import Addressing
import Bytes
import ProxyCore
import SIPGrammar
import SIPMessage
import Timekeeping

/// The simulated network between the daemon and its peers, which loses and duplicates datagrams.
extension SimulatedWorld {
    /// Delivers a message of a phone or PBX to a daemon.
    func deliver(_ bytes: [UInt8], on flow: Flow, at number: Int = 0) {
        let node = nodes[number]
        let generation = node.generation
        for _ in 0..<copies(on: flow) {
            at(random.milliseconds(5...60)) { world in
                guard node.isAlive, !flow.transport.isReliable || node.generation == generation else { return }
                world.tell("from", bytes, on: flow, at: number)
                switch world.reader.read(bytes) {
                case .request(let request): node.engine.requestReceived(request, on: flow, now: world.now)
                case .response(let response):
                    world.noteResponse(response, on: flow, at: number)
                    node.engine.responseReceived(response, on: flow, now: world.now)
                case .unusable(let unusable):
                    world.violate("the reader refused a simulated message: \(unusable.reason)")
                }
                world.drain(number)
            }
        }
    }

    func deliverKeepAlive(on flow: Flow, at number: Int = 0) {
        let node = nodes[number]
        let generation = node.generation
        for _ in 0..<copies(on: flow) {
            at(random.milliseconds(5...60)) { world in
                guard node.isAlive, !flow.transport.isReliable || node.generation == generation else { return }
                world.tell("keep-alive from", [], on: flow, at: number)
                node.engine.flowAlive(flow, now: world.now)
                world.drain(number)
            }
        }
    }

    /// Lets the daemon notice, after a delay, that a connection was closed.
    func connectionEnds(_ flow: Flow, after delay: Duration, at number: Int = 0) {
        let node = nodes[number]
        let generation = node.generation
        at(delay) { world in
            guard node.generation == generation else { return }
            world.halfOpen.remove(flow.connection)
            world.tell("end of", [], on: flow, at: number)
            node.engine.flowClosed(flow, now: world.now)
            world.drain(number)
        }
    }

    func proxySent(_ bytes: [UInt8], on flow: Flow, from number: Int = 0) {
        if cluster != nil, flow.listener == SimulatedClusterState.listener {
            return nodeSent(bytes, on: flow, from: number)
        }
        tell("to", bytes, on: flow, at: number)
        let message = reader.read(bytes)
        if case .unusable(let unusable) = message { violate("the daemon sent what cannot be read: \(unusable.reason)") }
        let phone = flow.transport.isReliable ? phoneOn[flow.connection] : phoneAt[flow.remote]
        if let phone {
            checkSent(message, to: phone, on: flow, from: number)
        } else {
            noteSentAway(message, on: flow, from: number)
        }
        if flow.transport.isReliable, halfOpen.contains(flow.connection) { return }
        if flow.transport.isReliable, flow.connection == 0 || phone == nil { return sendFails(on: flow, from: number) }
        for _ in 0..<copies(on: flow) {
            at(random.milliseconds(5...60)) { world in
                if flow.remote == Self.pbx {
                    world.pbxReceived(message)
                } else if let phone {
                    world.phoneReceived(message, phone, on: flow, from: number)
                }
            }
        }
    }

    func sendFails(on flow: Flow, from number: Int, after delay: Duration = .milliseconds(1)) {
        let node = nodes[number]
        let generation = node.generation
        at(delay) { world in
            guard node.generation == generation else { return }
            world.tell("not sent to", [], on: flow, at: number)
            node.engine.sendFailed(on: flow, now: world.now)
            world.drain(number)
        }
    }

    /// Interrupts the network of half of the phones, and sometimes of the PBX, for a while. Some phones change to a new
    /// network during the interruption.
    func networkBreaks() {
        let pause = random.milliseconds(500...15_000)
        for place in phoneAt.keys.sorted(by: { "\($0)" < "\($1)" }) where random.chance(0.5) {
            cutOff[place] = now.instant + pause
        }
        if random.chance(0.5) { cutOff[Self.pbx] = now.instant + pause }
        tell("the network is interrupted for \(pause)")
    }

    /// How many copies of a message arrive; 0 for a lost message.
    private func copies(on flow: Flow) -> Int {
        if flow.transport.isReliable || isQuiet { return 1 }
        if let end = cutOff[flow.remote], now.instant < end {
            interruptedMessages += 1
            return 0
        }
        return random.chance(plan.loss) ? 0 : random.chance(plan.duplication) ? 2 : 1
    }
}
