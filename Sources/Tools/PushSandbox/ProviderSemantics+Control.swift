import JSON

/// The sandbox's control resources, by which tests read recorded pushes and set failure plans.
extension ProviderSemantics {
    func control(_ request: SandboxRequest, _ path: [String]) -> SandboxAnswer {
        switch (request.method, path.first, path.count) {
        case ("GET", "pushes", 1):
            let wanted = request.query["token"]
            return SandboxAnswer(
                status: 200, json: .array(records.filter { wanted == nil || $0.token == wanted }.map(\.text)))
        case ("DELETE", "pushes", 1):
            records = []
            return SandboxAnswer(status: 200, json: .object([]))
        case ("GET", "trials", 1): return SandboxAnswer(status: 200, json: .array(trials.map(\.text)))
        case ("PUT", "tokens", 2): return put(request, token: path[1])
        case ("DELETE", "tokens", 2):
            plans[path[1]] = nil
            return SandboxAnswer(status: 200, json: .object([]))
        case ("PUT", "subscriptions", 2): return putSubscription(request, id: path[1])
        case ("DELETE", "subscriptions", 2):
            subscriptions[path[1]] = nil
            return SandboxAnswer(status: 200, json: .object([]))
        case ("GET", "feedback", 1): return SandboxAnswer(status: 200, json: feedback.text)
        case ("PUT", "feedback", 1), ("POST", "feedback", 1): return putFeedback(request)
        case ("DELETE", "feedback", 1):
            feedback = FeedbackList()
            return SandboxAnswer(status: 200, json: .object([]))
        case (_, "pushes", 1), (_, "trials", 1), (_, "tokens", 2), (_, "subscriptions", 2), (_, "feedback", 1):
            return SandboxAnswer(status: 405, json: .object([]))
        default: return SandboxAnswer(status: 404, json: .object([]))
        }
    }

    private func put(_ request: SandboxRequest, token: String) -> SandboxAnswer {
        do throws(FailurePlan.Fault) {
            let plan = try FailurePlan(json: request.body)
            guard plans[token] != nil || plans.count < Self.planLimit else {
                return SandboxAnswer(status: 507, json: .members([("error", "too many plans")]))
            }
            plans[token] = plan
            return SandboxAnswer(status: 200, json: .object([]))
        } catch {
            return SandboxAnswer(
                status: 400, json: .members([("error", "not a failure plan"), ("member", .string(error.member))]))
        }
    }

    /// Replaces the feedback list by a PUT, or adds records by a POST.
    private func putFeedback(_ request: SandboxRequest) -> SandboxAnswer {
        do throws(FailurePlan.Fault) {
            var list = request.method == "POST" ? feedback : FeedbackList()
            try list.add(json: request.body)
            feedback = list
            return SandboxAnswer(status: 200, json: .object([]))
        } catch {
            return SandboxAnswer(
                status: 400, json: .members([("error", "not a feedback list"), ("member", .string(error.member))]))
        }
    }
}
