package import HTTPServices

// Joins the answers of several nodes to one question of an operator.

extension HeldCallPage {
    /// Joins the pages of all nodes, which were asked with the same `after` and `limit`, to one page.
    ///
    /// The ids of two nodes can be equal. Calls with equal ids are on one page, because the next page begins after an id.
    package func joined(with others: NodeAnswers<HeldCallPage>, limit: Int) -> HeldCallPage {
        let pages = [self] + others.answers.map { $0.answer.named($0.node) }
        // A node with a next page has further calls after this id only.
        var next = pages.compactMap(\.next).min()
        var calls = pages.flatMap(\.calls).filter { call in next.map { call.id <= $0 } ?? true }
        calls.sort { ($0.id, $0.node ?? "") < ($1.id, $1.node ?? "") }
        if calls.count > limit, let last = calls.prefix(limit).last?.id,
            let end = calls.firstIndex(where: { $0.id > last })
        {
            calls.removeSubrange(end...)
            next = last
        }
        let total = total.map { own in pages.dropFirst().reduce(own) { $0 &+ ($1.total ?? 0) } }
        return HeldCallPage(
            calls: calls, next: next, total: total, missingNodes: others.missing.isEmpty ? nil : others.missing)
    }

    /// The page with the name of its node in each call.
    private func named(_ node: String) -> HeldCallPage {
        var page = self
        for index in page.calls.indices { page.calls[index].node = node }
        return page
    }
}

extension [BindingReport] {
    /// Takes the state of each device from the node that has the device's flow. If this node did not answer, the state is
    /// unknown.
    package func joined(with others: NodeAnswers<[BindingReport]>) -> [BindingReport] {
        map { device in
            guard let node = device.node else { return device }
            var device = device
            if let missing = others.missing.first(where: { $0.node == node }) {
                (device.state, device.nodeProblem) = (BindingReport.unknownState, missing.reason)
            }
            guard let answer = others.answers.first(where: { $0.node == node })?.answer,
                let there = answer.first(where: { $0.id == device.id })
            else { return device }
            (device.state, device.flow, device.isFresh) = (there.state, there.flow, there.isFresh)
            device.userAgent = there.userAgent ?? device.userAgent
            (device.lastPush, device.lastPushAt) = (there.lastPush, there.lastPushAt)
            return device
        }
    }
}

extension ExplainReport {
    /// Adds the active calls, the waiting messages and the registration at a PBX of other nodes. All other facts are in the store of all nodes.
    package func joined(with others: NodeAnswers<ExplainReport>) -> ExplainReport {
        var report = self
        for (node, answer) in others.answers {
            report.held += answer.held.map { call in
                var call = call
                call.node = node
                return call
            }
            report.records += answer.records.map { record in
                var record = record
                record.node = node
                return record
            }
            report.messages &+= answer.messages
            report.pbx = report.pbx ?? answer.pbx
        }
        if !others.missing.isEmpty { report.missingNodes = others.missing }
        return report
    }
}
