extension UserRulesBody {
    /// The rules in words, one line for each rule.
    package var lines: [String] {
        var lines: [String] = []
        if order != nil || groupTime != nil {
            let order =
                order.map { "devices ring in the order \($0)" } ?? "devices ring in the order of call.ring-order"
            lines.append(order + (groupTime.map { ", \($0.text) between two groups" } ?? ""))
        }
        lines += devices?.map(\.line) ?? []
        if let doNotDisturb { lines += doNotDisturb.lines }
        return lines.isEmpty ? ["no rules"] : lines
    }
}

extension DeviceRuleBody {
    fileprivate var line: String {
        let devices =
            switch device {
            case "push": "devices with push token"
            case "ordinary": "devices without push token"
            default: "device \(name ?? "\(device) (not registered)")"
            }
        return "\(devices): ring \(delay.text) after the call came"
    }
}

extension DoNotDisturbBody {
    fileprivate var lines: [String] {
        let when = always == true ? "always" : (windows ?? []).map(\.text).joined(separator: ", ")
        let zone = timeZone.map { " (\($0))" } ?? ""
        let callers = except.map { "; devices ring for \($0.joined(separator: ", "))" } ?? ""
        return ["do not disturb \(when)\(zone): callers get \(status ?? 480)\(callers)"]
    }
}

extension WindowBody {
    fileprivate var text: String {
        let time = "\(from) to \(to)"
        return days.map { "\($0.joined(separator: "+")) \(time)" } ?? "daily \(time)"
    }
}

extension Seconds {
    /// The time in words, with decimals if it has any.
    fileprivate var text: String {
        milliseconds % 1000 == 0 ? "\(milliseconds / 1000) s" : "\(Double(milliseconds) / 1000) s"
    }
}
