/// A group's schema and values without the group's type, for printing them.
struct SettingLine: Sendable {
    let key: String
    let help: String
    let isRequired: Bool
    /// When a change is taken; `nil`: when the group's is.
    let moment: ChangeMoment?
    let outline: SettingOutline
}

indirect enum SettingOutline: Sendable {
    struct Named: Sendable {
        let name: String
        let lines: [SettingLine]
    }

    /// `text` is `nil` without a value; `example` is shown instead.
    case value(type: String, text: String?, example: String?)
    case group([SettingLine])
    case named([Named], example: Named)
}

extension SettingsGroup {
    var outline: [SettingLine] {
        Self.schema.map { setting in
            SettingLine(
                key: setting.key, help: setting.help, isRequired: setting.isRequired, moment: setting.ownMoment,
                outline: setting.outline(self))
        }
    }
}
