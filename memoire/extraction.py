"""Les règles de l'extracteur d'entités pour le français (chapitre 5).

Elles s'appuient sur des tournures (« je m'appelle… », « chez… », « le budget est de… ») plutôt que sur les seules
majuscules : un mot qui commence une phrase n'est pas un nom propre. Elles manquent donc des entités ; le chapitre 5
mesure combien. ``memoire.entities`` ne charge ce module qu'à la première extraction : ses expressions sont longues
à compiler.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from memoire.french import STOP_WORDS, fold, is_question, value_key, word_set

MAX_SENTENCE = 1000
"""Nombre de caractères lus dans une phrase : au-delà, ce n'est plus une phrase."""

# Vocabulaire


def _words(text: str) -> str:
    """Fait d'une liste de mots une alternative d'expression régulière, les plus longs d'abord."""
    return "|".join(sorted((word.replace("_", " ") for word in text.split()), key=len, reverse=True))


_FIRST_NAMES = word_set(
    """
    Adam Adèle Agathe Agnès Ahmed Aïcha Alain Alexandre Ali Alice Aline Amandine Amélie Amina Amine Anaïs André
    Anne Anouk Antoine Arnaud Arthur Audrey Aurélie Aurélien Axel Baptiste Bastien Béatrice Benjamin Benoît
    Bernard Bruno Camille Carole Caroline Catherine Cécile Cédric Céline Charlotte Chloé Christelle Christine
    Christophe Clara Clément Coralie Corinne Damien Daniel David Delphine Denis Diane Didier Dominique Driss
    Édouard Élise Élodie Émilie Emma Emmanuel Enzo Éric Estelle Étienne Eva Ève Fabien Fabrice Farid Fatima Fatou
    Fatoumata Félix Fanny Franck François Françoise Frédéric Gabriel Gaëlle Gaspard Gérard Gilles Grégory
    Guillaume Gustave Hakim Hélène Henri Hugo Hugues Inès Ibrahim Isabelle Ismaël Jacques Jade Jamal Jean Jeanne
    Jérémy Jérôme Joël Jonathan Joseph Julia Julie Julien Juliette Karim Karine Kevin Khadija Laetitia Laura Laure
    Laurence Laurent Léa Léo Léon Leïla Lina Lisa Loïc Louis Louise Luc Lucas Lucie Ludovic Lydia Madeleine Maëlle
    Maël Malik Malika Manon Marc Marcel Margaux Margot Marguerite Maria Marianne Marie Marine Marion Martine
    Maryam Mathieu Mathilde Mathis Maud Maxime Mehdi Mélanie Michel Michèle Mohamed Monique Morgane Moussa Myriam
    Nadia Nathalie Nathan Nicolas Nina Noah Noémie Nora Odile Olivier Omar Oscar Pascal Patrice Patricia Patrick
    Paul Paula Pauline Philippe Pierre Quentin Rachid Rachel Raphaël Rémi Rémy René Richard Robin Romain Sabine
    Sabrina Said Salma Salomé Samir Samira Samuel Sandra Sandrine Sarah Sébastien Serge Simon Simone Sofia Solène
    Sonia Sophie Stéphane Stéphanie Suzanne Sylvain Sylvie Tania Théo Thibault Thierry Thomas Timothée Tristan
    Valérie Vanessa Véronique Victoire Vincent Virginie Xavier Yann Yannick Yasmine Yassine Yohan Youssef Yves
    Yvette Zoé
    """
)
_PLACES = word_set(
    """
    Agen Aix-en-Provence Ajaccio Amiens Angers Annecy Arras Avignon Bayonne Besançon Biarritz Blois Bordeaux
    Boulogne Bourges Brest Caen Calais Cannes Chambéry Cherbourg Clermont-Ferrand Colmar Dijon Dunkerque Évry
    Grenoble Laval Lens Lille Limoges Lorient Lyon Marseille Metz Montpellier Montreuil Mulhouse Nancy Nanterre
    Nantes Nice Nîmes Niort Orléans Paris Pau Perpignan Poitiers Quimper Reims Rennes Roubaix Rouen Saint-Denis
    Saint-Étienne Saint-Malo Strasbourg Toulon Toulouse Tours Troyes Valence Vannes Versailles Villeurbanne Genève
    Lausanne Zurich Bruxelles Liège Namur Anvers Luxembourg Montréal Québec Toronto Londres Berlin Munich Madrid
    Barcelone Lisbonne Porto Rome Milan Vienne Prague Varsovie Dublin Amsterdam Copenhague Stockholm Oslo Athènes
    Casablanca Rabat Alger Tunis Dakar Abidjan Tokyo Pékin Shanghai Singapour France Belgique Suisse Canada
    Allemagne Espagne Italie Portugal Angleterre Irlande Écosse Pays-Bas Autriche Pologne Suède Norvège Danemark
    Finlande Grèce Maroc Algérie Tunisie Sénégal Cameroun Mali Bénin Japon Chine Inde Brésil Mexique Argentine
    Chili Australie États-Unis Royaume-Uni Europe Afrique Asie Amérique Bretagne Normandie Alsace Corse Occitanie
    Provence Savoie Bourgogne Lorraine Aquitaine Auvergne Martinique Guadeloupe Guyane Réunion Mayotte
    """
)
_MODELS = _words("XGBoost LightGBM CatBoost CamemBERT FlauBERT BERT GPT-4 GPT-4o Mistral Llama Gemma Whisper ResNet")
_MONTHS = _words("janvier février mars avril mai juin juillet août septembre octobre novembre décembre")
_DAYS = _words("lundi mardi mercredi jeudi vendredi samedi dimanche")

_ROLES = (
    r"collègues?|chef(?:fe)?|manager|manageuse|patronn?e?|direct(?:eur|rice)|responsable|associée?|amie?|copain|copine"
    r"|frère|sœur|soeur|père|mère|mari|femme|époux|épouse|compagnon|compagne|conjointe?|fils|fille|cousine?|neveu|nièce"
    r"|tuteur|tutrice|professeure?|prof|encadrante?|stagiaire|alternante?|assistante?|développeu(?:r|se)|ingénieure?"
    r"|analyste|juriste|comptable|avocate?|médecin|voisine?|binôme|présidente?|fondat(?:eur|rice)"
    r"|interlocut(?:eur|rice)"
    r"|chercheu(?:r|se)|adjointe?|doctorante?|consultante?|technicien(?:ne)?|infirmi(?:er|ère)|coach|graphiste"
)
_JOBS = (
    r"data \w+|product \w+|chef(?:fe)? de \w+|direct(?:eur|rice)|responsable|développeu(?:r|se)"
    r"|ingénieure?|analyste|juriste"
    r"|comptable|avocate?|médecin|chercheu(?:r|se)|doctorante?|consultante?|technicien(?:ne)?"
    r"|infirmi(?:er|ère)|graphiste"
    r"|étudiante?|professeure?|enseignante?|architecte|designer|statisticien(?:ne)?|commerciale?|entrepreneu(?:r|se)"
    r"|gérante?|stagiaire|alternante?|journaliste|traduct(?:eur|rice)|boulang(?:er|ère)|libraire|auditeur|auditrice"
)
_STRIPPED = (
    r"société|entreprise|groupe|start-?up|boîte|compagnie|firme|marque|éditeur|employeur|cliente?"
    r"|fournisseur|partenaire"
    r"|concurrent|prestataire|cabinet|agence|association|fondation|filiale|enseigne|constructeur|opérateur|banque"
)
_KEPT = (
    r"banque|université|mairie|hôpital|CHU|école|lycée|collège|ministère|laboratoire|institut|préfecture|métropole"
    r"|tribunal|musée|clinique|mutuelle|rectorat|académie|faculté"
)

# Noms propres : une suite de mots à majuscule, avec leurs particules

_UP = "A-ZÀ-ÖØ-ÞŒ"
_NOT_NAME = _words(
    "je j tu il elle on nous vous ils elles mon ma mes notre nos votre vos ce cet cette ces c et ou mais donc car si "
    "quand merci bonjour bonsoir salut que qui pour avec sur dans chez suis alors puis ensuite sinon aujourd'hui demain"
)
_CAP = rf"(?!(?i:{_NOT_NAME})\b)[{_UP}][\w&]*(?:[-'.][\w&]+)*"
_PARTICLE = (
    r"(?:de la |de La |de l'|de |du |des |d'|la |le |van |von |der |ben |el |al |& |et (?=Fils\b|Cie\b|Associés\b))"
)
_NAME = rf"{_CAP}(?: {_PARTICLE}?{_CAP}){{0,4}}"
_PERSON = rf"{_CAP}(?: (?:de La |de la |de |du |d'|van |von |ben |el |al )?{_CAP}){{0,3}}"

_SELF = re.compile(
    rf"(?i:\b(?:je m'appelle|je me nomme|on m'appelle|je me présente ?[,:]|moi,? c'est"
    rf"|mon (?:vrai )?(?:nom|prénom)(?: complet)?(?: est|,? c'est)"
    rf"|(?:tu peux|vous pouvez) m'appeler|appelle[sz]?-moi)|^(?:\w+ ?[,!]? )?ici) ({_PERSON})"
)
_SELF_LOWER = re.compile(
    r"(?i:\b(?:je m'appelle|mon prénom est|mon nom est)) ([^\W\d_][^\W\d_-]{1,20}(?:-[^\W\d_]{2,20})?)\b"
)
_I_AM = re.compile(rf"(?i:\bje suis) ({_PERSON})(?=[,.!?;:]|$| et | de | du | d'| chez )")
_NOT_I_AM = re.compile(
    r"(?i:data|product|chief|lead|senior|junior|project|scrum|full|dev|devops|tech|drh|dsi|pdg|rssi"
    r"|ceo|cto|cfo|cdo|(?:fran[cç]|lyonn|marseill|portug|japon|angl|"
    r"polon|irland|holland|sénégal)ais|belge|suisse|parisien|canadien|québécois|marocain|algérien"
    r"|tunisien|italien|européen)(?:ne|e)?\b"
    rf"|(?i:{_JOBS})\b|[A-Z]{{2,}}\b"
)
_ITS = re.compile(rf"(?i:(?:^|[,!] ?)c'est) ({_PERSON})(?=,| qui | à l'appareil|[.!]?$)")
_TITLED = re.compile(
    rf"\b((?:M\.|MM\.|Dr\.?|Pr\.?|Me|Mme|Mlle|Mr|(?i:monsieur|madame|mademoiselle|docteur|maître"
    rf"|professeure?)) {_PERSON})"
)
_RELATION = re.compile(
    rf"\b(?i:(?:{_ROLES})(?:(?: [\w-]+){{0,3}},| s'appelle| se nomme| est| (?:{_ROLES}))?) ({_PERSON})"
)
_CALLED = re.compile(rf"(?i:\b(?:il|elle|qui) s'appelle) ({_PERSON})")
_ACTING = re.compile(
    rf"(?<![\w'-])({_PERSON}) (?:nous (?:rejoint|a rejoint|rejoindra|aide)|rejoint (?:l'|notre )équipe"
    rf"|est (?:mon|ma|notre|le|la) (?:{_ROLES})\b)"
)
_LEFT = re.compile(rf"(?<![\w'-])({_PERSON}) (?:ne travaille plus|a quitté|nous a quittés?|est partie?|nous quitte)\b")
_CAPITAL = re.compile(rf"(?<![\w'-]){_CAP}")
_SURNAME = re.compile(rf"(?: (?:de La |de |du |d')?{_CAP}){{0,2}}")
_NOT_BARE = re.compile(r"(?i:rue|avenue|place|boulevard|saint|sainte|projet|lycée|collège|école|stade) $")

_AT = re.compile(rf"\b(?i:chez) (?:la |le |les |l')?({_NAME})")
_AT_LOWER = re.compile(r"(?i:\bje (?:travaille|bosse)(?: \w+)? chez) ([a-zà-ÿœ][\w&-]+)\b")
_FOR = re.compile(
    rf"(?i:\b(?:travaill\w+|boss\w+|projet|mission|contrat|prestation"
    rf"|commande)\b[^.;!?]{{0,60}}?\bpour) (?:la |le |les |l')?({_NAME})"
)
_INSIDE = re.compile(
    rf"(?i:\b(?:travaill\w+|boss\w+|employée?|salariée?|stage|stagiaire|étudiante?|consultante?"
    rf"|ingénieure?|chercheu(?:r|se)|thèse|doctorat|master|enseign\w+|équipe|service)"
    rf"\b[^.;!?,]{{0,30}}?) (?:à la|à l'|au|aux|dans la|dans l') ?({_NAME})"
)
_HEADED = re.compile(rf"\b(?i:(?:{_STRIPPED})(?-i: [a-zà-ÿ-]+)?(?: s'appelle| est| nommée?| appelée?|,)?) ({_NAME})")
_INSTITUTION = re.compile(rf"\b((?i:{_KEPT}) (?:de la |de l'|de |du |des |d')?{_NAME})")
_FROM = re.compile(rf",? (?:de chez |de la |de l'|du |de |d')({_NAME})")
_OF = re.compile(
    rf"\b(?i:équipes?|salariée?s?|experts?|ingénieure?s?|collègues?|direction|site|usine|offre) d'({_NAME})"
)
_WITH = re.compile(
    r"(?i:\b(?:collabor\w+|travaill\w+|contrat|partenariat|accord|associ\w+)\b[^.;!?,]{0,30}? avec)"
    rf" (?:la |le |les |l')?({_NAME})"
)
_HEAD_OF = re.compile(
    r"(?i:\b(?:direct(?:eur|rice)|pdg|patronne?|présidente?|salariée?s?|employée?s?|actionnaires?)(?-i: [a-zà-ÿ]+)?)"
    rf" (?:de la |de |d'|du )({_NAME})"
)
_ALSO = re.compile(rf"(?:, | et )({_NAME})")
_LEGAL = re.compile(rf"\b({_CAP}(?: {_CAP}){{0,3}} (?:SAS|SARL|SASU|Inc|Ltd|GmbH))\b")
_JOIN = re.compile(
    rf"(?i:\b(?:je rejoins|j'ai rejoint|je rejoindrai|je viens de rejoindre|j'intègre|j'ai intégré|avant de rejoindre"
    rf"|embauchée? (?:par|chez)|recrutée? par"
    rf"|je pars chez|je passe chez)) ({_NAME})"
)
_EMPLOYED = re.compile(r"(?i:\bje (?:travaille|bosse|suis|rejoins|pars|passe)\b|\bj'ai rejoint\b)")
_OTHER_SUBJECT = re.compile(r"(?i:\b(?:mon|ma|mes|notre|son|sa|il|elle|ils|elles|qui|cliente?|projet|étudiante?)\b)")
_WORKING_AT = re.compile(r"(?i:\b(?:chez|pour|à|au|aux|dans)\b|rejoin)")
_OVER = re.compile(
    rf"(?i:\b(?:je|nous|on) (?:ne|n') ?(?:travaill\w+|boss\w+|suis|sommes|est|habit\w+|vi[st]|vivons"
    rf"|fai[st]|faisons) plus\b[^.;,]{{0,20}}?"
    rf"\b(?:chez|pour|en|aux?|à|de|d')|\bj'ai quitté|\bje quitte|\bj'ai démissionné (?:de|d')"
    rf"|\bj'ai travaillé[^.;,]{{0,30}}? chez"
    rf"|\bje travaillais[^.;,]{{0,30}}? chez|\bj'étais[^.;,]{{0,30}}? chez|\bj'habitais (?:à|en)"
    rf"|\b(?:mon|notre) ancien(?:ne)? (?:{_STRIPPED})(?: était| est|,)?) ?(?:la |l'|le )?({_NAME})"
)

_LIVING = re.compile(
    rf"(?i:\b(?:habit\w+|vi[st]|vivons|vivent|résid\w+|install\w+|basée?s?|située?s?|implantée?s?"
    rf"|déménag\w+|née?s?|bureaux?|locaux|siège"
    rf"|agence|site|usine|travaill\w+|télétravaill\w+|étudi\w+|arriv\w+|déplacement|réunion"
    rf"|conférence|serveurs?|magasin|boutique|(?:est|sont|se trouve)(?= à))\b[^.;!?,]{{0,30}}?"
    r"|\b(?:suis|sommes|on est)(?: (?:actuellement|maintenant|désormais|toujours|aujourd'hui|en ce moment))?)"
    rf" (?:à|près de|depuis|vers) ({_NAME})"
)
_COUNTRY = re.compile(
    rf"(?i:\b(?:habit\w+|vi[st]|vivons|résid\w+|install\w+|basée?s?|située?s?|déménag\w+"
    rf"|née?s?) )[^.;!?,]{{0,20}}?\b(?:en|au|aux|dans la|dans le|dans l') ?({_NAME})"
)
_COMMA_PLACE = re.compile(
    rf"(?:, (?:à|près de)|\b(?i:chez) {_NAME} à) ({_NAME})(?=[,.;:!?)]|$| (?:et|depuis|sur|comme) )"
)
_CITY_OF = re.compile(rf"\b(?i:ville|commune|originaire|région|département) (?:de |d'|du )?({_NAME})")
_KNOWN_PLACE = re.compile(
    rf"(?<![\w-])(?:(?:à|en|aux?|de|du|vers|depuis|pour|sur|la|le|les|entre|et|dans|près de) |[dlLD]'"
    rf"|^(?:La|Le|Les) |, )({_CAP})(?![\w-])"
)
_HOME = re.compile(
    r"(?i:\b(?:j'habite|je vis|je réside|j'ai déménagé|je déménage|je me suis installée?|je m'installe|ma ville est)\b)"
)

_TOPIC = re.compile(
    r"(?i:\bprojets? (?:du|de|d'|autour de|autour du)"
    r"|\b(?:travaill\w+|boss\w+|planch\w+|recherches?|thèse|mémoire|article|stage|étude|exposé"
    r"|rapport|porte|portera|portent|questions?|aide|aider"
    r"|échang\w+|projet|formation)\b(?!-)[^.;!?]{0,60}?\bsur"
    r"|\b(?:m'|nous |s')(?:occupe|occupons|occupent) (?:des|du|de|d')|\b(?:m'|nous "
    r"|s')intéress\w+ (?:aux|au|à)|\bpassionnée? (?:de|d'|par)"
    r"|\bil s'agit (?:du|de|d')|\bà propos (?:des|du|de|d')|\bparl(?:er|e|ons|ez)(?: souvent| aussi"
    r"| beaucoup)? (?:des|du|de|d')|\b(?:j'apprends"
    r"|apprendre|j'étudie)"
    r"|\b(?:je|nous) (?:développ|construi|conç|conce|cré|mont)\w+ (?=une?\b)) ?"
)
_PROJECT = re.compile(rf"(?i:\b(?:projet|programme|chantier)(?: s'appelle| se nomme| nommé| baptisé| est)?) ({_NAME})")
_USE = re.compile(
    rf"(?i:\b(?:utilis(?:e|ons|ez|er)|migr\w+ vers|pass\w+ à) )(?:le |la |l'|les )?({_NAME})"
    rf"((?:, {_NAME}){{0,4}}(?:,? et {_NAME})?)"
)
_EACH = re.compile(_NAME)
_TOKEN = re.compile(r"(?:[ldLD]|[Qq]u)'|[^\W_][\w&]*(?:[-'.][\w&]+)*")
_DETERMINERS = word_set("le la les l' un une des du mon ma mes notre nos son sa ses leur leurs ce cet cette ces d'")
_LINKS = word_set("de du des d' la l' le les en vers un une")
_BAD_START = re.compile(
    r"\d.*|deux|trois|quatre|cinq|six|sept|huit|dix|vingt|trente|cent|place|site|autres?|choses?|points?|suivi|suite|fond"
    r"|sujets?|temps|projets?|truc"
)
_NOT_TOPIC = word_set(
    "avance porte concerne commence janvier fevrier avril mai juin juillet aout septembre octobre novembre decembre "
    "lundi mardi mercredi jeudi vendredi samedi dimanche semaine"
)

# Attributs : un nom connu, un verbe, une valeur

_NUMERIC = (
    r"budget|délai|échéance|date limite|date de \w+|deadline|seuil|taux|rappel|précision|prix|coût"
    r"|objectif|âge|numéro|effectif|durée"
    r"|livraison|loyer|salaire|tarif|montant|quota|score|exactitude|latence|réunion|rendez-vous|livrable|capital|nombre"
)
_TEXTUAL = (
    r"poste|rôle|fonction|métier|priorité|modèle|algorithme|langue|équipe|fournisseur|hébergeur"
    r"|base de données|framework|outil|version"
)
_ARTICLE = re.compile(r"(?i:(?:une?|le|la|les) |l')")
_BARE_TEXT = re.compile(r"poste|rôle|fonction|métier|priorité")
_COMPLEMENT = (
    r"(?: (?!est\b|sera\b|sont\b|passe|a\b|de \d|d'environ)(?:(?:de la |de l'|de |du |des )[\w-]+"
    r"|d'[\w-]+|[\w-]+)){0,3}?"
)
_SUBJECT = (
    rf"(?i:\b(?:le |la |l'|les |mon |ma |notre |un |une |ce |cette |son |leur |^)"
    rf"(?P<name>(?:{_NUMERIC}|{_TEXTUAL})\b)(?P<of>{_COMPLEMENT}))"
)
_ADVERBS = (
    r"(?: (?:désormais|maintenant|finalement|aujourd'hui|donc|bien|toujours|actuellement|seulement"
    r"|encore|plutôt|que|enfin|environ|à peine))*"
)
_PARTICIPLE = (
    r"(?: (?:pass|fix|limit|port|ramen|repouss|report|décal|avanc|estim|augment|mont|arrêt|plafonn"
    r"|confi|chiffr|relev|baiss|abaiss|prolong|ajust)ée?s?"
    r"| (?:prév|descend|mainten|reten|reven|rev)ue?s?(?: à la (?:baisse|hausse))?| réduite?s?| établie?s?| remise?)?"
)
_VERB = (
    r"(?: ne?'?| n')? ?(?P<verb>est|sera|sont|seront|reste|restera|devient|deviendra|vaut|atteint"
    r"|s'élève|se monte|tombe|monte|descend|baisse|passe"
    r"|passera|passent|recule|glisse|a été|vient d'être|vient de passer|compte|c'est|augmente|grimpe"
    r"|a augmenté|a baissé|a changé)"
)
_RELATIVE = re.compile(
    r"(?:repouss|report|décal|avanc|prolong|augment|baiss|rédui|relev|abaiss|mont"
    r"|descend)\w*(?: bien)? (?:de |d'|des )\W*$"
)
_INTO = r"(?:,? ?(?: (?:à|au|aux|de|du|des|pour|le|la|les|en|jusqu'au|jusqu'à)\b| d'| l'| :)){0,3} ?"
_NUMBER_WORDS = _words(
    "un une deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize vingt trente "
    "quarante cinquante soixante cent mille"
)
_UNITS = (
    r"k€|M€|k|K|M|€|%|\$|euros?|dollars?|jours?|semaines?|mois|années?|ans?|heures?|h|minutes?|min|s"
    r"|ms|personnes?|membres?|analystes?"
    r"|millions?(?: d'euros)?|mille euros|milliards?|points?|km|m²|kg|Go|To"
)
_PER = r"(?: (?:par|/) ?(?:mois|jour|an|semaine|personne|heure)| TTC| HT)?"
_DATE = (
    rf"\d{{1,2}}(?:er)? (?:{_MONTHS})(?: \d{{4}})?|\d{{1,2}}/\d{{1,2}}(?:/\d{{2,4}})?"
    rf"|(?:fin|début|mi|milieu|courant)(?:-| (?:du |de la |de l'|de |d')?)(?:{_MONTHS}|mois|semaine"
    rf"|année|an|trimestre|été|semestre|hiver)(?: prochaine?)?"
    rf"|(?:{_DAYS})(?: prochain| \d{{1,2}}(?: (?:{_MONTHS}))?)?|demain|après-demain|ce soir|(?:semaine"
    rf"|mois) prochaine?|(?:{_MONTHS})(?: prochain| \d{{4}})?"
)
_AMOUNT = (
    rf"[-+−]?\d+(?: \d{{3}})*(?:[.,]\d+)*(?: ?(?:{_UNITS})(?![\w]))?{_PER}|(?:{_NUMBER_WORDS})"
    rf"(?: (?:{_NUMBER_WORDS}))? (?:{_UNITS})\b{_PER}"
)
_VALUE = rf"(?P<value>(?i:{_DATE})(?!\w)|(?i:{_AMOUNT})(?![\w]))"
_QUALIFIER = r"(?:environ |près de |plus de |moins de |au plus |au moins |quelque )?"
_FROM_TO = re.compile(
    rf"{_SUBJECT}(?i:(?: (?:est|a|va|sera|vient de|vient d'être|a été))?{_ADVERBS} (?:pass|mont"
    rf"|descend|augment|grimp|baiss|recul|décal|repouss|report|avanc|relev|abaiss)\w*"
    rf" (?:de |d'|du )){_QUALIFIER}{_VALUE.replace('value', 'old')}(?: (?:à|au|aux|vers) "
    rf"|, ?puis à ){_QUALIFIER}{_VALUE}"
)
_NOT_BUT = re.compile(
    rf"{_SUBJECT}(?i: n'est (?:pas"
    rf"|plus){_INTO}){_QUALIFIER}{_VALUE.replace('value', 'old')},? mais{_INTO}{_QUALIFIER}{_VALUE}"
)
_WAS_NOW = re.compile(
    rf"{_SUBJECT}(?i: était{_INTO}){_QUALIFIER}{_VALUE.replace('value', 'old')}(?i:[^.;!?]{{0,40}}?\b(?:maintenant"
    rf"|désormais|passe|passé|devenu|finalement)\b{_INTO})"
    rf"{_QUALIFIER}{_VALUE}"
)
_SAID = re.compile(rf"{_SUBJECT}(?i:,?{_VERB}{_ADVERBS}{_PARTICIPLE}{_ADVERBS}{_INTO}){_QUALIFIER}{_VALUE}")
_OF_VALUE = re.compile(
    rf"(?i:\b(?P<name>{_NUMERIC})(?P<of>(?: (?:d'[\w-]+|de (?!\d)[\w-]+|[\w-]+))??)(?: (?:maximum"
    rf"|maximal|total|fixe|actuel|mensuel|annuel))? (?:de|d')) ?"
    rf"{_QUALIFIER}{_VALUE}"
)
_LABEL = re.compile(
    rf"(?i:(?:^\W*|[;,] )(?:le |la |mon |ma |notre |l')?(?P<name>{_NUMERIC}|{_TEXTUAL})"
    rf"(?P<of>(?: [\w'-]+){{0,3}}?) ?[:=]) ?{_QUALIFIER}{_VALUE}"
)
_MOVE = re.compile(
    rf"(?i:\b(?:pass|fix|limit|port|ramen|repouss|report|décal|avanc|augment|baiss|relev|chang|rédui|prolong)\w* )"
    rf"(?i:(?:le |la |l'|notre |mon |ma |leur )(?P<name>{_NUMERIC})\b(?P<of>{_COMPLEMENT}))"
    rf"(?i:{_INTO}){_QUALIFIER}{_VALUE}"
)
_TEXT_SAID = re.compile(
    rf"(?i:\b(?:le |la |l'|mon |ma |notre |votre |ce )(?P<name>{_TEXTUAL})\b(?P<of>{_COMPLEMENT}),?{_VERB}{_ADVERBS}"
    r"(?: (?:passée?|devenue?|fixée?) (?:à|en)| passé à| à| en| de)?) (?=(?P<start>\S))"
)
_TEAM = re.compile(
    rf"(?i:\b(?:rejoins|rejoint|rejoindre|intègre|intégré|passe (?:dans|à|chez)|suis dans"
    rf"|travaille dans|partie de|pour) (?:l'|une |la nouvelle )?équipe(?: des?| d'| du)?) ?({_NAME}"
    rf"|[\w-]+)"
)
_JOB = re.compile(
    rf"(?i:\bje (?:suis devenue?|suis|deviens|serai|travaille comme)(?: (?:actuellement|désormais|maintenant|aussi"
    rf"|un|une|le|la))*|\bj'occupe le poste de|\b(?:je |j')[^.;,]{{0,60}}?\b(?:comme|en tant que)(?: une?)?"
    rf"|\b(?:je suis|m'appelle) [\w' -]{{2,40}}?,) (?=(?i:{_JOBS})\b)"
)
_LANGUAGE = re.compile(
    r"(?i:\b(?:répond\w*|(?<!je )parl\w+|écri\w*|rédig\w*)(?:-moi|-nous)?(?: moi| toujours"
    r"| plutôt)? (?:en )?)(?i:(français|anglais|allemand|espagnol|italien|portugais|arabe|chinois"
    r"|japonais|néerlandais))\b"
)
_AGE = re.compile(r"(?i:\bj'ai (\d{1,3} ans))\b")
_DEADLINE = re.compile(
    r"(?i:\b(?:(?:nous avons|j'ai|on a) jusqu'(?:au|à)|à (?:rendre|livrer|remettre) (?:pour|avant|d'ici)(?: le| la)?)"
    rf" ({_DATE})(?!\w))"
)
_NUMBERED = re.compile(
    r"(?i:\b(?P<name>numéro|référence|code)(?P<of>(?: (?:de |d')[\w-]+)?)(?: est| ?:)(?: le)?) "
    r"(?P<value>[A-Z]*-?\d[\w./-]*\w|\d)"
)
_DEPLOYED = re.compile(r"(?i:\b(?:est|sont|sera) (?:déployée?s?|hébergée?s?|installée?s?) (?:sur|dans|chez) )")
_ENTRUSTED = re.compile(rf"(?i:\b(?:le |la |l')(\w+) est (?:confiée?|assurée?|gérée?) (?:à|par) )({_NAME})")
_MODEL = re.compile(rf"(?<![\w-])({_MODELS})(?![\w-])")
_IF = re.compile(r"(?i:(?:^|[,;:] ?|\b(?:et|mais|même|sauf|que) )si (?!vous|tu|possible|besoin))")
_ASKING = re.compile(
    r"(?i:\W*(?:et |mais |au fait,? |alors,? )?(?:quel|comment|combien|où|quand|qui|que|qu'|pourquoi"
    r"|est-ce|savez|sais|pouvez-vous me (?:dire|rappeler)|rappel|peux-tu me))"
)
_CLAUSE = re.compile(r"[,;:–—]| et | mais ")
_LETTER = re.compile(r"[^\W\d_]")
_STRAIGHT = str.maketrans({"’": "'", "ʼ": "'", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "\t": " "})


class Reader:
    """Lit des phrases l'une après l'autre et note ce qu'elles apprennent.

    Attributes:
        categories: catégorie -> {forme repliée: entité}.
        attributes: attribut -> valeur annoncée.
        previous: attribut -> ancienne valeur rappelée.
        ended: entités qui ne sont plus d'actualité.
    """

    def __init__(self) -> None:
        self.categories: dict[str, dict[str, str]] = {
            category: {} for category in ("personnes", "organisations", "sujets", "lieux")
        }
        self.attributes: dict[str, str] = {}
        self.previous: dict[str, str] = {}
        self.ended: list[str] = []

    def read(self, sentence: str) -> None:
        """Applique toutes les règles à une phrase."""
        if not _LETTER.search(sentence):
            return
        self.text = unicodedata.normalize("NFC", sentence[:MAX_SENTENCE])
        self.plain = self.text.translate(_STRAIGHT)  # même longueur : les positions se correspondent
        if self.plain.isupper() and len(lower := self.plain.lower()) == len(self.plain):
            self.plain = lower
        self.taken: list[tuple[int, int]] = []
        self.said = self._declared()
        self._read_ended()
        self._read_people()
        self._read_organisations()
        self._read_places()
        self._read_topics()
        self._read_bare_names()
        self._read_attributes()

    def _declared(self) -> int:
        """Donne la position jusqu'où la phrase affirme : une question n'affirme que ce qui la précède."""
        if not is_question(self.plain):
            return len(self.plain)
        if _ASKING.match(self.plain):
            return 0
        return max((match.start() for match in _CLAUSE.finditer(self.plain)), default=0)

    # Noter

    def _add(self, category: str, span: tuple[int, int]) -> str | None:
        """Note une entité, sauf si une autre occupe déjà sa place ; rend sa valeur."""
        start, end = span
        if any(start < other_end and other_start < end for other_start, other_end in self.taken):
            return None
        self.taken.append(span)
        value = self.text[start:end].rstrip(".")
        self.categories[category].setdefault(value_key(value), value)
        return value

    def _set(self, name: str, value: str, old: str | None = None) -> None:
        """Note la valeur d'un attribut ; une première valeur, dans le même texte, devient l'ancienne."""
        name = " ".join(name.split())
        old = self.attributes.get(name) if old is None else old
        if old is not None and value_key(old) != value_key(value):
            self.previous.setdefault(name, old)
        self.attributes[name] = value

    def _set_if_said(self, name: str, value: str, position: int) -> None:
        """Note un attribut si la phrase l'affirme, au lieu de le demander ou de le supposer."""
        if position < self.said and not _IF.search(self.plain, 0, position):
            self._set(name, value)

    def _find(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Donne les passages affirmés qui suivent une tournure."""
        for match in pattern.finditer(self.plain):
            if match.start() < self.said and not _IF.search(self.plain, 0, match.start() + 1):
                yield match

    # Lire

    def _read_ended(self) -> None:
        for pattern in (_OVER, _LEFT):
            for match in pattern.finditer(self.plain):
                if pattern is _LEFT and " " not in match[1] and match[1] not in _FIRST_NAMES:
                    continue
                self.taken.append(match.span(1))
                value = self.text[match.start(1) : match.end(1)]
                self.ended.append(value)
                for values in self.categories.values():
                    values.pop(value_key(value), None)
                for name in [name for name, known in self.attributes.items() if value_key(known) == value_key(value)]:
                    self.previous[name] = self.attributes.pop(name)

    def _read_people(self) -> None:
        for pattern in (_SELF, _I_AM):
            for match in self._find(pattern):
                if pattern is _SELF or not _NOT_I_AM.match(match[1]):
                    self._introduce(match.span(1))
        for match in self._find(_SELF_LOWER):
            if match[1][0].islower() and fold(match[1]) not in STOP_WORDS and self._add("personnes", match.span(1)):
                del self.categories["personnes"][value_key(match[1])]
                name = "-".join(part.capitalize() for part in match[1].split("-"))
                self.categories["personnes"][value_key(name)] = name
                self._set("prénom", name)
        for match in _ITS.finditer(self.plain):
            if match[1].split()[0] in _FIRST_NAMES or self.plain[match.end() :].startswith((", l", " à l'appareil")):
                self._add("personnes", match.span(1))
        for pattern in (_TITLED, _RELATION, _CALLED, _ACTING):
            for match in pattern.finditer(self.plain):
                self._add("personnes", match.span(1))

    def _introduce(self, span: tuple[int, int]) -> None:
        """Note le nom de l'utilisateur, et l'organisation dont il se réclame juste après."""
        name = self._add("personnes", span)
        if name is None:
            return
        self._set("nom" if " " in name else "prénom", name)
        if (match := _FROM.match(self.plain, span[1])) and match[0][0] == ",":
            category = "lieux" if match[1] in _PLACES else "organisations"
            self._add(category, match.span(1))

    def _read_organisations(self) -> None:
        for match in self._find(_JOIN):
            if match[1].split()[0] not in _FIRST_NAMES and (value := self._add("organisations", match.span(1))):
                self._set("employeur", value)
        for pattern in (_INSTITUTION, _AT, _INSIDE, _FOR, _HEADED, _OF, _WITH, _HEAD_OF, _LEGAL):
            for match in pattern.finditer(self.plain):
                name = match[1].split()[0]
                if name in _FIRST_NAMES or match[1] in _PLACES or (pattern is _HEADED and name == "Le"):
                    continue
                if value := self._add("organisations", match.span(1)):
                    self._note_employer(match, value)
                    if pattern is _WITH and (other := _ALSO.match(self.plain, match.end(1))):
                        self._add("organisations", other.span(1))
        for match in self._find(_AT_LOWER):
            if fold(match[1]) not in STOP_WORDS and (value := self._add("organisations", match.span(1))):
                self._set("employeur", value)

    def _note_employer(self, match: re.Match[str], value: str) -> None:
        """Retient l'organisation comme employeur si c'est l'utilisateur qui dit y travailler."""
        start = match.start(1)
        subjects = list(_EMPLOYED.finditer(self.plain, max(0, start - 90), start))
        if not subjects:
            return
        between = self.plain[subjects[-1].end() : start]
        if _WORKING_AT.search(subjects[-1][0] + between) and not _OTHER_SUBJECT.search(between):
            self._set_if_said("employeur", value, start)

    def _read_places(self) -> None:
        for pattern in (_LIVING, _COUNTRY, _COMMA_PLACE, _CITY_OF, _KNOWN_PLACE):
            for match in pattern.finditer(self.plain):
                name = match[1]
                is_known = name in _PLACES
                if name.split()[0] in _FIRST_NAMES or (not is_known and (pattern is _KNOWN_PLACE or name.isupper())):
                    continue
                value = self._add("lieux", match.span(1))
                start = match.start(1)
                if value and _HOME.search(self.plain, max(0, start - 60), start):
                    self._set_if_said("ville", value, start)

    def _read_topics(self) -> None:
        for match in _PROJECT.finditer(self.plain):
            self._add("sujets", match.span(1))
        for match in _USE.finditer(self.plain):
            self._add("sujets", match.span(1))
            for other in _EACH.finditer(self.plain, match.start(2), match.end(2)):
                self._add("sujets", other.span())
        for match in _TOPIC.finditer(self.plain):
            span = self._noun_phrase(match.end())
            if span:
                self._add("sujets", span)

    def _read_bare_names(self) -> None:
        for match in _CAPITAL.finditer(self.plain):
            if match[0].split("-")[0] in _FIRST_NAMES and not _NOT_BARE.search(
                self.plain, max(0, match.start() - 12), match.start()
            ):
                surname = _SURNAME.match(self.plain, match.end())
                self._add("personnes", (match.start(), surname.end() if surname else match.end()))

    def _noun_phrase(self, start: int) -> tuple[int, int] | None:
        """Lit un groupe nominal de cinq mots au plus, sans son déterminant."""
        first = last = None
        pending = count = 0
        position = start
        while count < 5 and (token := _TOKEN.match(self.plain, position)):
            word = fold(token[0])
            if first is None and word in _DETERMINERS:
                pass
            elif first is not None and word in _LINKS and pending < 3:
                pending += 1
            elif word in STOP_WORDS or word in _NOT_TOPIC or (first is None and _BAD_START.fullmatch(word)):
                break
            else:
                first, last = token.start() if first is None else first, token.end()
                count, pending = count + 1, 0
            position = token.end() + (self.plain[token.end() : token.end() + 1] == " ")
        return None if first is None or last is None else (first, last)

    def _read_attributes(self) -> None:
        for pattern in (_OF_VALUE, _LABEL, _SAID, _MOVE, _WAS_NOW, _NOT_BUT, _FROM_TO, _NUMBERED):
            for match in self._find(pattern):
                groups = match.groupdict()
                if "old" not in groups and _RELATIVE.search(self.plain, match.start(), match.start("value")):
                    continue
                old = self.text[match.start("old") : match.end("old")] if groups.get("old") else None
                self._set(_attribute_name(match), self.text[match.start("value") : match.end("value")].strip(), old)
        for match in self._find(_TEXT_SAID):
            name, span = _attribute_name(match), self._noun_phrase(match.end())
            is_named = match["start"].isupper() or _ARTICLE.match(self.plain, match.end())
            if span and name not in self.attributes and (is_named or _BARE_TEXT.fullmatch(match["name"].lower())):
                self._set(name, self.text[slice(*span)])
        for name, pattern in (("poste", _JOB), ("déploiement", _DEPLOYED)):
            for match in self._find(pattern):
                if span := self._noun_phrase(match.end()):
                    self._set(name, self.text[slice(*span)])
        for name, pattern in (
            ("équipe", _TEAM),
            ("langue", _LANGUAGE),
            ("âge", _AGE),
            ("modèle", _MODEL),
            ("échéance", _DEADLINE),
        ):
            for match in self._find(pattern):
                if fold(match[1]) not in STOP_WORDS:
                    self._set(name, self.text[match.start(1) : match.end(1)])
        for match in self._find(_ENTRUSTED):
            self._set(match[1], self.text[match.start(2) : match.end(2)])


_CLASSIFYING = re.compile(r" (?:de (?!la\b|l'|mon\b|ma\b|notre\b|ce\b|cette\b)[\w-]+|d'[\w-]+|[A-Z]{2,})")
_ADJECTIVE = re.compile(
    r" (?!(?:du|des|de|maximum|maximal|total|actuel|actuelle|retenue?|choisie?|fixée?|prévue?"
    r"|initiale?|finale?|utilisée?|mensuel|annuel)\b)[a-zà-ÿ-]+(?:e?l|eur|if|ive|ing|ique|aire|eux"
    r"|euse|lle)\b"
)


def _attribute_name(match: re.Match[str]) -> str:
    """Nomme un attribut avec ce qui le précise : « taux de fraude », mais « rappel » pour « rappel du modèle »."""
    of = match["of"] or ""
    kept = _CLASSIFYING.match(of) or _ADJECTIVE.match(of)
    name = match["name"].lower()
    if kept is None:
        return name
    text = kept[0]
    return name + (text if text.strip().isupper() else text.lower())
