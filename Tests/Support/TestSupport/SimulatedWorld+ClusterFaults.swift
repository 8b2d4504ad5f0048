import Addressing
import Bytes
import Calling
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import SIPGrammar
import Timekeeping

/// The nodes of a simulated cluster: their starts, their ends, and the faults of the links and of the store.
extension SimulatedWorld {
    func clusterStarts() {
        for node in nodes {
            node.isAlive = false
            at(random.milliseconds(0...900)) { $0.nodeStarts(node) }
        }
        planOwnerCheck()
    }

    func planClusterFaults(within day: Duration) {
        guard let faults = cluster?.faults else { return }
        let end = Int64(day / .milliseconds(1))
        func plan(_ count: Int, _ event: @escaping (SimulatedWorld) -> Void) {
            for _ in 0..<count { at(random.milliseconds(30_000...end), event) }
        }
        plan(faults.kills) { $0.nodeEnds() }
        plan(faults.cuts) { $0.linkIsCut() }
        plan(faults.breaks) { $0.linksBreak() }
        plan(faults.outages) { $0.storeGoesAway() }
        plan(faults.hangs) { $0.storeHangs() }
        plan(faults.failovers) { $0.storeFailsOver() }
        plan(faults.storeCuts) { $0.nodeLosesStore() }
    }

    // MARK: Where phones and PBXs send their requests

    private var livingNodes: [Int] { nodes.indices.filter { nodes[$0].isAlive } }

    func livingNode() -> Int {
        guard cluster != nil else { return 0 }
        return livingNodes.randomElement(using: &random) ?? 0
    }

    /// Half of the phones stay at their node. A phone over UDP sometimes uses a node that has ended.
    func nodeForPhone(_ phone: Int) -> Int {
        guard cluster != nil else { return 0 }
        let current = phones[phone].node
        if random.chance(0.5), nodes[current].isAlive { return current }
        if phones[phone].transport == .udp, random.chance(0.1), !isQuiet {
            return Int.random(in: nodes.indices, using: &random)
        }
        return livingNode()
    }

    /// A request inside a dialog may use any node.
    func nodeInDialog(of call: SimulatedCall) -> Int {
        guard cluster != nil else { return 0 }
        return nodes[call.node].isAlive && random.chance(0.7) ? call.node : livingNode()
    }

    // MARK: Starts and ends

    func nodeStarts(_ node: SimulatedNode) {
        guard let cluster else { return }
        guard case .serves = cluster.store.condition(now: now.instant), node.storeLink.cutUntil <= now.instant else {
            return at(.seconds(1)) { $0.nodeStarts(node) }
        }
        let (run, wasTakenOver) = cluster.store.starts(node.number, now: now.instant)
        tell("\(cluster.places[node.number].name) starts run \(run)\(wasTakenOver ? ", taken over" : "")")
        (node.run, node.isAlive) = (run, true)
        node.sharedCalls = SharedCallStates()
        node.engine = engine(StoredState(), of: node.number, run: run, generation: node.generation)
        let peers = cluster.store.peers(of: node.number, keepsOld: false, now: now.instant)
        node.engine.nodesChanged(
            peers.compactMap { peer in cluster.store.rows[peer].map { cluster.places[peer].peer(run: $0.run) } },
            now: now)
        let stored = node.disk.calls.values.sorted { $0.id < $1.id }
        for aor in Set(stored.compactMap { $0.userCall?.aor }).sorted(by: { $0.description < $1.description }) {
            if let user = cluster.store.disk.user(.user(aor)) { node.engine.restore(user, now: now) }
        }
        var resumed = Set<String>()
        for call in stored {
            if wasTakenOver, call.isInStore {
                node.disk.journal(.over(call: call.id))
                continue
            }
            node.engine.restore(call, now: now)
            if let callID = call.userCall?.callID.string { resumed.insert(callID) }
        }
        node.engine.restored(now: now)
        node.disk.replay()
        for index in calls.indices where calls[index].owner.node == node.number && !calls[index].isOver {
            if resumed.contains(calls[index].callID) {
                calls[index].owner.since = now.instant
                cluster.resumed += 1
            } else if calls[index].sawCrash {
                calls[index].wasLost = true
            }
        }
        planCommit(of: node)
        drain(node.number)
        nodeLives(node)
    }

    /// Ends a node without notice, and starts it again: soon, or after other nodes have taken over its calls.
    private func nodeEnds() {
        guard let cluster, livingNodes.count > 1, let number = livingNodes.randomElement(using: &random) else { return }
        let node = nodes[number]
        let pause = random.chance(0.5) ? random.milliseconds(200...3_000) : random.milliseconds(7_000...60_000)
        tell("\(cluster.places[number].name) ends for \(pause)")
        node.generation += 1
        (node.isAlive, node.timer) = (false, nil)
        (node.storeLink, node.storeLink.confirmed) = (SimulatedStoreLink(), node.storeLink.confirmed)
        cluster.nodeTrouble[number] = now.instant + pause + .seconds(7)
        for index in calls.indices where calls[index].owner.node == number && !calls[index].isOver {
            calls[index].sawCrash = true
            calls[index].hasChangedOwner = true
        }
        for index in calls.indices { calls[index].reportsInFlightAtCrash.formUnion(calls[index].reportsUnderWay) }
        node.disk.dropQueue()
        node.timeline.crashed()
        for link in cluster.links.values.sorted(by: { $0.number < $1.number })
        where link.opener == number || link.other == number { linkBreaks(link) }
        for phone in phones.indices where phones[phone].node == number {
            if let connection = phones[phone].connection { phoneOn[connection] = nil }
            phones[phone].connection = nil
        }
        checkContacts(on: cluster.store.disk, after: "the end of a node")
        at(pause) { $0.nodeStarts(node) }
    }

    /// Handles INVITEs that a node takes over from nodes without a sign of life.
    func invitesTaken(_ rows: [SimulatedStore.HeldRow], by node: SimulatedNode) {
        guard let cluster else { return }
        cluster.takenOver += rows.count
        for row in rows {
            tell("\(cluster.places[node.number].name) takes over \(row.invite.callID)")
            guard let index = calls.firstIndex(where: { $0.callID == row.invite.callID.string }) else { continue }
            if row.taken.call == nil, now.date >= row.invite.until { continue }
            if nodes[calls[index].owner.node].isAlive { calls[index].hasTwoOwners = true }
            calls[index].owner = (node.number, now.instant)
            calls[index].hasChangedOwner = true
        }
    }

    // MARK: Faults of the links

    private func somePair() -> (Int, Int) {
        let first = Int.random(in: nodes.indices, using: &random)
        let second = (first + Int.random(in: 1..<nodes.count, using: &random)) % nodes.count
        return (first, second)
    }

    /// Interrupts the connections between two nodes for a while. Half of the interruptions concern only the connections
    /// that one of the nodes opens.
    private func linkIsCut() {
        guard let cluster else { return }
        let (node, peer) = somePair()
        let end = now.instant + random.milliseconds(200...30_000)
        let isWhole = random.chance(0.5)
        tell("no way \(isWhole ? "between" : "from") \(node) and \(peer) until \(end.nanoseconds / 1_000_000)")
        cluster.cutUntil[[node, peer]] = max(cluster.cutUntil[[node, peer]] ?? end, end)
        if isWhole { cluster.cutUntil[[peer, node]] = max(cluster.cutUntil[[peer, node]] ?? end, end) }
        cluster.noteLinkTrouble(node, peer, until: end + .seconds(5))
    }

    private func linksBreak() {
        guard let cluster else { return }
        let (node, peer) = somePair()
        tell("the connections between \(node) and \(peer) break")
        for link in cluster.links.values.sorted(by: { $0.number < $1.number })
        where [link.opener, link.other] == [node, peer] || [link.opener, link.other] == [peer, node] {
            linkBreaks(link)
        }
    }

    // MARK: Faults of the store

    private func storeGoesAway() {
        let pause = random.milliseconds(300...10_000)
        tell("the store is away for \(pause)")
        cluster?.store.goesAway(until: now.instant + pause)
        noteStoreTrouble(pause)
    }

    private func storeHangs() {
        let pause = random.milliseconds(100...8_000)
        tell("the store hangs for \(pause)")
        cluster?.store.hangs(until: now.instant + pause)
        noteStoreTrouble(pause)
        at(pause) { world in
            guard let cluster = world.cluster, case .serves = cluster.store.condition(now: world.now.instant) else {
                return
            }
            cluster.store.performDelayed()
        }
    }

    private func storeFailsOver() {
        guard let cluster else { return }
        let pause = random.milliseconds(300...6_000)
        tell("the store fails over, and is away for \(pause)")
        for node in nodes where node.isAlive && node.disk.hasQueue && random.chance(0.5) {
            // The new primary has the commits that were on the way, but the node gets no answer.
            let batch = node.disk.takeQueue()
            cluster.store.disk.apply(batch)
            written(batch, isStored: false, of: node)
        }
        let since = now.instant
        let lost = cluster.store.failsOver(now: since) { written in
            since - written < .milliseconds(20) && random.chance(0.5)
        }
        cluster.undeleted.formUnion(lost)
        cluster.store.goesAway(until: since + pause)
        noteStoreTrouble(pause)
        checkContacts(on: cluster.store.disk, after: "a failover")
    }

    /// Cuts a node off from the store.
    private func nodeLosesStore() {
        guard let cluster, let number = livingNodes.randomElement(using: &random) else { return }
        let pause = random.milliseconds(1_000...15_000)
        tell("\(cluster.places[number].name) does not reach the store for \(pause)")
        nodes[number].storeLink.cutUntil = now.instant + pause
        cluster.nodeTrouble[number] = max(cluster.nodeTrouble[number] ?? now.instant, now.instant + pause + .seconds(4))
    }

    private func noteStoreTrouble(_ pause: Duration) {
        guard let cluster else { return }
        cluster.storeTrouble = max(cluster.storeTrouble, now.instant + pause + .seconds(4))
    }

    /// Notes a call whose row the store may keep, because the store did not answer when the call ended.
    func noteUndeleted(_ callID: ByteString) { cluster?.undeleted.insert(callID) }
}
