import LocationService
import ProxyCore
import ProxyPolicy
import Registration
import Timekeeping

/// The nodes' connections to the shared store of the cluster: changes, questions and signs of life.
extension SimulatedWorld {
    /// The reaction of the store to a node. A node can be cut off from a store that serves the other nodes.
    private func condition(for node: SimulatedNode) -> SimulatedStore.Condition {
        guard let cluster else { return .serves }
        let own = node.storeLink.cutUntil
        if now.instant < own { return .hangs(until: own) }
        return cluster.store.condition(now: now.instant)
    }

    // MARK: Changes

    /// Commits all queued changes of a node in one transaction.
    func writeToStore(of node: SimulatedNode) {
        guard let cluster, node.isAlive else { return }
        if now.instant < node.storeLink.writerBusyUntil { return writeLater(node, at: node.storeLink.writerBusyUntil) }
        let condition = condition(for: node)
        let pause = now.instant + SimulatedStoreLink.patience
        if case .hangs(let end) = condition, end < pause { return writeLater(node, at: end) }
        let batch = node.disk.takeQueue()
        switch condition {
        case .serves:
            cluster.store.disk.remove(node.storeLink.unconfirmed.values)
            node.storeLink.unconfirmed = [:]
            cluster.store.disk.apply(batch)
            let failovers = cluster.store.failovers
            let end = max(now.instant + random.milliseconds(0...3), node.storeLink.writerAnswered)
            node.storeLink.writerAnswered = end
            answer(node, at: end) { $0.written(batch, isStored: cluster.store.failovers == failovers, of: node) }
        case .refuses: written(batch, isStored: false, of: node)
        case .hangs:
            // The server may get the changes, and commit them after the node has given up.
            if random.chance(0.5) { cluster.store.delay { $0.disk.apply(batch) } }
            node.storeLink.writerBusyUntil = pause
            return answer(node, at: pause) {
                $0.written(batch, isStored: false, of: node)
                $0.asksAfterWrite(node)
            }
        }
        asksAfterWrite(node)
    }

    private func writeLater(_ node: SimulatedNode, at time: Instant) {
        answer(node, at: time) { $0.writeToStore(of: node) }
    }

    /// Handles the end of a commit for the node that ordered it.
    func written(_ batch: SimulatedDisk.Batch, isStored: Bool, of node: SimulatedNode) {
        if isStored {
            node.storeLink.confirmed(batch)
            node.disk.confirmed()
        } else {
            node.storeLink.failed(batch)
            node.disk.restore(batch)
        }
        for ticket in batch.compactMap(\.ticket) {
            if !isStored { noteRefusedCommit() }
            node.engine.committed(ticket, succeeded: isStored, now: now)
        }
        drain(node.number)
        if !isStored, node.disk.hasQueue { at(.milliseconds(200)) { $0.writeToStore(of: node) } }
    }

    /// Delivers something to a node at a time, unless the node has ended before.
    private func answer(_ node: SimulatedNode, at time: Instant, _ event: @escaping (SimulatedWorld) -> Void) {
        let generation = node.generation
        at(max(time - now.instant, .zero)) { world in
            if node.generation == generation { event(world) }
        }
    }

    // MARK: Questions

    /// Reads users for a node. The answer has all changes that the node has ordered before.
    func read(_ question: UserReads.Question, announcing announcement: Announcement?, of node: SimulatedNode) {
        guard cluster != nil else { return }
        let link = node.storeLink
        guard node.disk.hasQueue || now.instant < link.writerBusyUntil || now.instant < link.writerAnswered else {
            return ask(.users(question, announcement), of: node)
        }
        node.storeLink.afterWrite.append(.users(question, announcement))
        planCommit(of: node)
    }

    private func asksAfterWrite(_ node: SimulatedNode) {
        let questions = node.storeLink.afterWrite
        node.storeLink.afterWrite = []
        answer(node, at: node.storeLink.writerAnswered) { world in
            for question in questions { world.ask(question, of: node) }
        }
    }

    func ask(_ question: SimulatedStoreLink.Question, of node: SimulatedNode) {
        guard cluster != nil else { return }
        node.storeLink.questions.append(question)
        planQuestions(of: node, at: now.instant + random.milliseconds(0...2))
    }

    private func planQuestions(of node: SimulatedNode, at time: Instant) {
        guard !node.storeLink.isPlanned else { return }
        node.storeLink.isPlanned = true
        answer(node, at: max(time, node.storeLink.readerBusyUntil)) { world in
            node.storeLink.isPlanned = false
            world.askAll(of: node)
        }
    }

    /// Sends all waiting questions of a node together.
    private func askAll(of node: SimulatedNode) {
        guard let cluster else { return }
        if now.instant < node.storeLink.readerBusyUntil { return planQuestions(of: node, at: now.instant) }
        let questions = node.storeLink.questions
        let condition = condition(for: node)
        let pause = now.instant + SimulatedStoreLink.patience
        if case .hangs(let end) = condition, end < pause { return planQuestions(of: node, at: end) }
        node.storeLink.questions = []
        if now.instant < node.storeLink.pausesUntil { return fail(questions, of: node) }
        switch condition {
        case .serves:
            let answers = questions.compactMap { perform($0, of: node) }
            let failovers = cluster.store.failovers
            let end = max(
                now.instant + random.milliseconds(0...3), node.storeLink.readerAnswered, node.storeLink.writerAnswered)
            node.storeLink.readerAnswered = end
            answer(node, at: end) { world in
                guard cluster.store.failovers == failovers else { return world.fail(questions, of: node) }
                for answer in answers { answer(world) }
                world.drain(node.number)
            }
        case .refuses:
            node.storeLink.pausesUntil = now.instant + random.milliseconds(200...400)
            node.storeLink.lastSign = nil
            fail(questions, of: node)
        case .hangs:
            // The server may get the announcements, and commit them after the node has given up.
            if random.chance(0.5) {
                let time = now.instant
                for case .users(_, let announcement?) in questions {
                    cluster.store.delay { $0.announce(announcement, at: node.number, now: time) }
                }
            }
            node.storeLink.readerBusyUntil = pause
            node.storeLink.lastSign = nil
            let rest = random.milliseconds(200...400)
            answer(node, at: pause) { world in
                node.storeLink.pausesUntil = world.now.instant + rest
                world.fail(questions, of: node)
            }
        }
    }

    private func fail(_ questions: [SimulatedStoreLink.Question], of node: SimulatedNode) {
        for question in questions {
            switch question {
            case .users(let question, _):
                noteUnread(question.subjects, at: node.number)
                node.engine.usersRead(question.ticket, nil, now: now)
            case .nodes(let aor): node.engine.nodesFound(waitingFor: aor, [], now: now)
            case .endInvite(_, let callID): noteUndeleted(callID)
            case .endWaiting, .keep, .callChanged: break
            }
        }
        drain(node.number)
    }

    /// Performs a question in the store, and returns the delivery of the answer.
    private func perform(
        _ question: SimulatedStoreLink.Question, of node: SimulatedNode
    ) -> ((SimulatedWorld) -> Void)? {
        guard let cluster else { return nil }
        switch question {
        case .users(let question, let announcement):
            if let announcement { cluster.store.announce(announcement, at: node.number, now: now.instant) }
            let users = StoredUsers(
                users: question.subjects.sorted { "\($0)" < "\($1)" }.compactMap { cluster.store.disk.user($0) })
            return { node.engine.usersRead(question.ticket, users, now: $0.now) }
        case .nodes(let aor):
            let names = cluster.store.nodes(waitingFor: aor, besides: node.number).map { cluster.places[$0].name }
            return { node.engine.nodesFound(waitingFor: aor, names, now: $0.now) }
        case .endWaiting(let users): cluster.store.endWaiting(users, at: node.number)
        case .endInvite(let aor, let callID): cluster.store.endInvite(aor, callID, at: node.number)
        case .keep(let invite): cluster.store.keep(invite, at: node.number, now: now.instant)
        case .callChanged(let call, let change): cluster.store.note(change, of: call, at: node.number)
        }
        return nil
    }

    // MARK: Signs of life

    /// Lets a node give its signs of life each second.
    func nodeLives(_ node: SimulatedNode) {
        answer(node, at: now.instant + SimulatedStoreLink.interval) { $0.nodeLives(node) }
        guard now.instant >= node.storeLink.readerBusyUntil else { return }
        guard case .serves = condition(for: node), now.instant >= node.storeLink.pausesUntil, let cluster else {
            // A question that nobody answers keeps the connection busy.
            if case .hangs = condition(for: node) {
                node.storeLink.readerBusyUntil = now.instant + SimulatedStoreLink.patience
            }
            node.storeLink.lastSign = nil
            return
        }
        let takesOver = node.storeLink.takesOver(now: now.instant)
        if !cluster.store.lives(node.number, run: node.run, now: now.instant), node.storeLink.hasJoined {
            tell("\(cluster.places[node.number].name) lost its calls to others")
        }
        let taken = takesOver ? cluster.store.takeOver(by: node.number, now: now.instant) : []
        let keepsOld = node.storeLink.hasJoined && !takesOver
        let peers = cluster.store.peers(of: node.number, keepsOld: keepsOld, now: now.instant).compactMap { peer in
            cluster.store.rows[peer].map { cluster.places[peer].peer(run: $0.run) }
        }
        if peers != node.storeLink.peers {
            node.storeLink.peers = peers
            tell("\(cluster.places[node.number].name) sees \(peers.map(\.name))")
            node.engine.nodesChanged(peers, now: now)
        }
        node.storeLink.hasJoined = true
        if !taken.isEmpty {
            invitesTaken(taken, by: node)
            node.engine.invitesTakenOver(taken.map(\.taken), now: now)
        }
        drain(node.number)
    }
}
